// Package fakegpu makes libraries that stand in for NVIDIA's in tests: a CUDA driver that works in host memory, and an
// NVML that reads its values from a file. They are compiled with the system's C compiler, and steered and read through
// a page of memory that tests share with every process that loads them.
package fakegpu

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

//go:embed native
var native embed.FS

// Word is a place of the control page.
type Word int

// What a test sets. The layout is that of native/control.h.
const (
	Devices       Word = iota // how many there are
	Memory                    // bytes of each
	InitCode                  // what cuInit returns
	FaultCode                 // what the failing call returns
	FaultAfter                // which call of it fails, from 1
	FaultSticky               // 1: all calls after it fail too
	Bandwidth                 // bytes of a copy in a second; 0: hardly any time
	KernelNS                  // nanoseconds of a kernel
	Stall                     // 1: no event is reached
	Capability                // compute capability times ten
	IsIntegrated              // 1: a device in the CPU's memory
	DriverVersion             // CUDA's, 13000 for 13.0
	Used                      // bytes that others take
	armed                     // changes with each Fail
	revived                   // changes with each Revive
)

// What the fake has counted.
const (
	Pageable     Word = 32 + iota // asynchronous copies of memory that is not pinned
	Allocs                        // of device memory, not yet freed
	Bytes                         // of them
	Host                          // pinned allocations, not yet freed
	Streams                       // not yet destroyed
	Events                        // not yet destroyed
	Modules                       // not yet unloaded
	Contexts                      // retained, not yet released
	Copies                        // asynchronous, so far
	Launches                      // so far
	Misuse                        // what a real driver would not survive
	Synchronized                  // waits for a stream or an event
	Registered                    // memory of others that is pinned
	Matched                       // calls of the function that Fail or Watch names
)

const (
	words      = 64
	symbolAt   = 8 * words
	symbolSize = 64
)

// Control steers a fake and reads what it has counted.
type Control struct {
	Path string // for FAKEGPU_CONTROL of another process
	page []byte
}

// New makes a control page with one device of 1 GiB and compute capability 9.0 under a driver for CUDA 13.0, and points
// this process, and those that inherit its environment, to it. A process that has loaded a fake already keeps the page
// it had.
func New(t testing.TB) *Control {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control")
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKEGPU_CONTROL", path)
	return c
}

// Main runs the tests of a package in which many tests share one fake: it is one library for the whole process, so its
// page is one too, that of FAKEGPU_CONTROL where there is one. hand gets the page before the tests run. Main returns
// the exit code.
func Main(m *testing.M, hand func(*Control)) int {
	dir, err := os.MkdirTemp("", "edgewise-fakegpu-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := os.Getenv("FAKEGPU_CONTROL")
	if path == "" {
		path = filepath.Join(dir, "control")
	}
	c, err := Open(path)
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("FAKEGPU_CONTROL", path)
	hand(c)
	return m.Run()
}

// left is what nothing may be left of once everything is closed.
var left = map[string]Word{
	"device memory": Allocs, "bytes": Bytes, "pinned memory": Host, "streams": Streams, "events": Events,
	"modules": Modules, "contexts": Contexts, "registered": Registered,
}

// Left says what has not been given back, sorted; empty when nothing is.
func (c *Control) Left() []string {
	var list []string
	for name, w := range left {
		if n := c.Get(w); n != 0 {
			list = append(list, fmt.Sprintf("%d %s", n, name))
		}
	}
	slices.Sort(list)
	return list
}

// Careful returns a function that fails the test when, since Careful was called, something was not given back, was
// copied out of memory that is not pinned, or would have ended a real driver.
func (c *Control) Careful(t testing.TB) (check func()) {
	misuse, pageable := c.Get(Misuse), c.Get(Pageable)
	return func() {
		t.Helper()
		if list := c.Left(); len(list) > 0 {
			t.Errorf("left: %s", strings.Join(list, ", "))
		}
		if n := c.Get(Pageable) - pageable; n != 0 {
			t.Errorf("%d asynchronous copies of memory that is not pinned", n)
		}
		if n := c.Get(Misuse) - misuse; n != 0 {
			t.Errorf("%d calls that a driver would not survive", n)
		}
	}
}

// Open makes the page in a file. It stays mapped until the process ends, as the fakes' own mapping does.
func Open(path string) (*Control, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	page, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	c := &Control{path, page}
	c.Reset()
	return c, nil
}

// Reset sets what New sets, and nothing else; counts stay.
func (c *Control) Reset() {
	for w := Devices; w <= Used; w++ {
		c.Set(w, 0)
	}
	c.Set(Devices, 1)
	c.Set(Memory, 1<<30)
	c.Set(Capability, 90)
	c.Set(DriverVersion, 13000)
}

func (c *Control) word(w Word) *int64 { return (*int64)(unsafe.Pointer(&c.page[8*int(w)])) }

// Set sets a word.
func (c *Control) Set(w Word, value int64) { atomic.StoreInt64(c.word(w), value) }

// Get reads a word.
func (c *Control) Get(w Word) int64 { return atomic.LoadInt64(c.word(w)) }

// Watch makes Matched count the calls of a driver's function.
func (c *Control) Watch(symbol string) {
	c.Fail(symbol, 1, 0, false)
	c.Set(Matched, 0)
}

// Revive gives this process a new device at its next cuInit, as another process would find it: nothing is lost, nothing
// is left.
func (c *Control) Revive() { c.Set(revived, c.Get(revived)+1) }

// Fail makes the n-th call from now on of a driver's function fail with code. "kernel" is the running of a kernel. When
// it is sticky, every call fails after it. Each process counts its own calls. One that can only read the page, which
// then stands in a file "control" beside the library, and has loaded the library after this, is not meant.
func (c *Control) Fail(symbol string, n int, code int32, sticky bool) {
	c.Set(FaultCode, 0)
	name := c.page[symbolAt : symbolAt+symbolSize]
	clear(name)
	copy(name, symbol)
	c.Set(FaultAfter, int64(n))
	c.Set(armed, c.Get(armed)+1)
	c.Set(FaultSticky, 0)
	if sticky {
		c.Set(FaultSticky, 1)
	}
	c.Set(FaultCode, int64(code))
}

// Build compiles a fake, "libcuda" or "libnvidia-ml", and returns the path of the library, which ends with the name
// that NVIDIA's has. The test fails when there is no C compiler.
func Build(t testing.TB, library string) string {
	t.Helper()
	path, err := Compile(library, os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sources are the files of each fake.
var sources = map[string][]string{"libcuda": {"libcuda.c", "kernels.c"}, "libnvidia-ml": {"libnvidia-ml.c"}}

// headers are included by them.
var headers = []string{"control.h", "memory.h", "queue.h"}

// Compile makes a fake below dir, in a folder named after the digest of its sources; what is there already is taken.
func Compile(library, dir string) (string, error) {
	files := append(slices.Clone(headers), sources[library]...)
	sum := sha256.New()
	content := map[string][]byte{}
	for _, name := range files {
		source, err := native.ReadFile("native/" + name)
		if err != nil {
			return "", err
		}
		content[name] = source
		_, _ = sum.Write(source)
	}
	name := library + ".so.1"
	folder := filepath.Join(dir, "edgewise-fakegpu-"+hex.EncodeToString(sum.Sum(nil))[:16])
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	work, err := os.MkdirTemp(dir, "edgewise-fakegpu-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for name, source := range content {
		if err := os.WriteFile(filepath.Join(work, name), source, 0o600); err != nil {
			return "", err
		}
	}
	arguments := append([]string{
		"-shared", "-fPIC", "-O1", "-g", "-Wall", "-Werror", "-ffp-contract=off", "-pthread",
		"-Wl,-soname," + name, "-o", name,
	}, sources[library]...)
	cc := exec.Command("cc", append(arguments, "-lm", "-ldl")...)
	cc.Dir = work
	if out, err := cc.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: "cc: " + string(out), Err: err}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(filepath.Join(work, name), path)
}
