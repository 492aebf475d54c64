package cuda_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// The fake is one library for the whole process, so its state is too: one control page, and a fault that sticks has to have
// a process of its own.
var control *fakegpu.Control

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "edgewise-cuda-")
	if err != nil {
		panic(err)
	}
	path := os.Getenv("FAKEGPU_CONTROL")
	if path == "" {
		path = filepath.Join(dir, "control")
	}
	if control, err = fakegpu.Open(path); err != nil {
		panic(err)
	}
	_ = os.Setenv("FAKEGPU_CONTROL", path)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func driver(t *testing.T) *cuda.Driver {
	t.Helper()
	control.Reset()
	d, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// retain makes a context, and checks at the end of the test that nothing of it is left and nothing was misused.
func retain(t *testing.T) *cuda.Ctx {
	t.Helper()
	d, err := driver(t).GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Retain()
	if err != nil {
		t.Fatal(err)
	}
	misused, pageable := control.Get(fakegpu.Misuse), control.Get(fakegpu.Pageable)
	t.Cleanup(func() {
		control.Reset()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for name, w := range map[string]fakegpu.Word{
			"device memory": fakegpu.Allocs, "bytes": fakegpu.Bytes, "pinned memory": fakegpu.Host, "streams": fakegpu.Streams,
			"events": fakegpu.Events, "modules": fakegpu.Modules, "contexts": fakegpu.Contexts, "registered": fakegpu.Registered,
		} {
			if n := control.Get(w); n != 0 {
				t.Errorf("%d %s left", n, name)
			}
		}
		if n := control.Get(fakegpu.Misuse) - misused; n != 0 {
			t.Errorf("%d calls that a driver would not survive", n)
		}
		if n := control.Get(fakegpu.Pageable) - pageable; n != 0 {
			t.Errorf("%d asynchronous copies of memory that is not pinned", n)
		}
	})
	return c
}

func closing(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// made fails the test on an error and closes what was made at its end.
func made[T interface{ Close() error }](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		closing(t, v)
		return v
	}
}

func alloc(t *testing.T, c *cuda.Ctx, n int64) cuda.DevicePtr {
	t.Helper()
	p, err := c.MemAlloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.MemFree(p); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(broken, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"no driver", []string{"libnotthere.so.7"}, "no CUDA driver was found (libnotthere.so.7)"},
		{"no library", []string{broken}, "cannot be loaded as a CUDA driver"},
		{"another library", []string{"libm.so.6"}, "does not have cuInit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := cuda.Open(test.candidates)
			if err == nil || edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestDriverThatRefusesToStart(t *testing.T) {
	for code, want := range map[cuda.Result]string{
		cuda.NoDevice: "no device", cuda.SystemDriverMismatch: "do not match", cuda.Unknown: "unknown error", cuda.CompatNotSupportedOnDevice: "compatibility",
	} {
		control.Reset()
		control.Set(fakegpu.InitCode, int64(code))
		_, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
		var result cuda.Result
		if !errors.As(err, &result) || result != code || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "13.0") {
			t.Errorf("code %d: got %v", code, err)
		}
	}
}

func TestDeviceIsDescribed(t *testing.T) {
	d := driver(t)
	control.Set(fakegpu.Devices, 2)
	control.Set(fakegpu.Capability, 87)
	n, err := d.NumDevices()
	if err != nil || n != 2 || d.Version().String() != "13.0" {
		t.Fatalf("%d devices under %v: %v", n, d, err)
	}
	device, err := d.GetDevice(1)
	if err != nil {
		t.Fatal(err)
	}
	name, err1 := device.Name()
	uuid, err2 := device.UUID()
	bus, err3 := device.PCIBusID()
	memory, err4 := device.TotalMem()
	major, minor, err5 := device.ComputeCapability()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	if name != "Fake GPU 1" || uuid != "GPU-00000000-0000-0000-0000-000000000001" || bus != "0000:02:00.0" || memory != 1<<30 || major != 8 || minor != 7 {
		t.Errorf("%s %s %s %d %d.%d", name, uuid, bus, memory, major, minor)
	}
	if _, err := d.GetDevice(2); edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("third of two devices: %v", err)
	}
}

func TestCopiesArriveWhenTheStreamGetsThere(t *testing.T) {
	c := retain(t)
	s := made[*cuda.Stream](t)(c.MakeStream())
	from, to := made[*cuda.Pinned](t)(c.MemHostAlloc(4096)), made[*cuda.Pinned](t)(c.MemHostAlloc(4096))
	p := alloc(t, c, 4096)
	for i := range from.Bytes() {
		from.Bytes()[i] = byte(i)
	}
	if err := errors.Join(s.MemcpyHtoDAsync(p, from, 0, 4096), s.MemcpyDtoHAsync(to, 0, p, 4096)); err != nil {
		t.Fatal(err)
	}
	if to.Bytes()[1] != 0xCD {
		t.Error("the fake copies before anybody waits: missing waits would not be seen")
	}
	if err := s.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if string(from.Bytes()) != string(to.Bytes()) {
		t.Error("bytes changed on the way")
	}
	if err := s.MemcpyHtoDAsync(p, from, 4000, 97); err == nil {
		t.Error("a copy beyond the pinned memory was accepted")
	}
}

func TestSynchronousCopiesTakeAnyMemory(t *testing.T) {
	c := retain(t)
	p := alloc(t, c, 5)
	got := make([]byte, 5)
	if err := errors.Join(c.MemcpyHtoD(p, []byte("hello")), c.MemcpyDtoH(got, p), c.MemcpyHtoD(p, nil), c.MemcpyDtoH(nil, p)); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEventsOrderStreams(t *testing.T) {
	c := retain(t)
	in, out := made[*cuda.Stream](t)(c.MakeStream()), made[*cuda.Stream](t)(c.MakeStream())
	from, to := made[*cuda.Pinned](t)(c.MemHostAlloc(1<<20)), made[*cuda.Pinned](t)(c.MemHostAlloc(1<<20))
	there := made[*cuda.Event](t)(c.MakeEvent())
	p := alloc(t, c, 1<<20)
	control.Set(fakegpu.Bandwidth, 50<<20)
	for i := range from.Bytes() {
		from.Bytes()[i] = byte(i * 7)
	}
	err := errors.Join(in.MemcpyHtoDAsync(p, from, 0, 1<<20), there.Record(in), out.WaitEvent(there), out.MemcpyDtoHAsync(to, 0, p, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := there.Query(); done || err != nil {
		t.Errorf("event at once: %v, %v", done, err)
	}
	if err := out.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if string(from.Bytes()) != string(to.Bytes()) {
		t.Error("the second stream did not wait for the first")
	}
	if done, err := in.Query(); !done || err != nil {
		t.Errorf("stream after its work: %v, %v", done, err)
	}
}

// TestCopiesOverlapKernels proves that the three engines work at the same time when streams let them: copies of 40 ms each and
// kernels of 40 ms each take much less together than one after the other.
func TestCopiesOverlapKernels(t *testing.T) {
	c := retain(t)
	const n, each, times = 1 << 20, 40 * time.Millisecond, 4
	control.Set(fakegpu.Bandwidth, int64(n*time.Second/each))
	control.Set(fakegpu.KernelNS, int64(each))
	streams := [3]*cuda.Stream{}
	for i := range streams {
		streams[i] = made[*cuda.Stream](t)(c.MakeStream())
	}
	from, to := made[*cuda.Pinned](t)(c.MemHostAlloc(n)), made[*cuda.Pinned](t)(c.MemHostAlloc(n))
	a, b := alloc(t, c, n), alloc(t, c, n)
	scale := kernel(t, c)
	start := time.Now()
	for range times {
		err := errors.Join(
			streams[0].MemcpyHtoDAsync(a, from, 0, n),
			scale.Launch(cuda.Dim3{X: 1, Y: 1, Z: 1}, cuda.Dim3{X: 32, Y: 1, Z: 1}, 0, streams[1], uint64(b), uint64(b), 0, 0),
			streams[2].MemcpyDtoHAsync(to, 0, b, n),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range streams {
		if err := s.Synchronize(); err != nil {
			t.Fatal(err)
		}
	}
	if took, sum := time.Since(start), 3*times*each; took > sum*2/3 {
		t.Errorf("copies and kernels took %v together, %v one after the other", took, sum)
	}
}

const scalePTX = ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry scale(\n.param .u64 a\n)\n{\nret;\n}\n"

func kernel(t *testing.T, c *cuda.Ctx) *cuda.Function {
	t.Helper()
	m := made[*cuda.Module](t)(c.LoadData(scalePTX))
	f, err := m.Function("scale")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestKernelRunsInStreamOrder(t *testing.T) {
	c := retain(t)
	s := made[*cuda.Stream](t)(c.MakeStream())
	scale := kernel(t, c)
	host := made[*cuda.Pinned](t)(c.MemHostAlloc(12))
	a, b := alloc(t, c, 12), alloc(t, c, 12)
	for i, v := range []float32{1, 2, -3} {
		binary.LittleEndian.PutUint32(host.Bytes()[4*i:], math.Float32bits(v))
	}
	one := cuda.Dim3{X: 1, Y: 1, Z: 1}
	err := errors.Join(
		s.MemcpyHtoDAsync(a, host, 0, 12), s.MemsetD8Async(b, 0, 12),
		scale.Launch(one, cuda.Dim3{X: 32, Y: 1, Z: 1}, 0, s, uint64(a), uint64(b), 3, uint64(math.Float32bits(2.5))),
		s.MemcpyDtoDAsync(a, b, 12), s.MemcpyDtoHAsync(host, 0, a, 12), s.Synchronize(),
	)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{2.5, 5, -7.5} {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(host.Bytes()[4*i:])); got != want {
			t.Errorf("element %d: %v, want %v", i, got, want)
		}
	}
	if err := scale.Launch(one, one, 0, s, make([]uint64, cuda.MaxArguments+1)...); err == nil {
		t.Error("too many arguments were accepted")
	}
}

func TestPTXThatTheDriverRefuses(t *testing.T) {
	c := retain(t)
	_, err := c.LoadData(scalePTX[:40])
	var r cuda.Result
	if !errors.As(err, &r) || r != cuda.InvalidPTX || !strings.Contains(err.Error(), "unexpected end") {
		t.Errorf("truncated PTX: %v", err)
	}
	m := made[*cuda.Module](t)(c.LoadData(scalePTX))
	if _, err := m.Function("other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a kernel that is not there: %v", err)
	}
}

func TestMemoryHasAnEnd(t *testing.T) {
	c := retain(t)
	control.Set(fakegpu.Used, 512<<20)
	free, total, err := c.MemInfo()
	if err != nil || free != 512<<20 || total != 1<<30 {
		t.Errorf("%d of %d free: %v", free, total, err)
	}
	_, err = c.MemAlloc(513 << 20)
	var r cuda.Result
	if !errors.As(err, &r) || r.Class() != cuda.Retryable || edgewise.KindOf(err) != edgewise.Exhausted || edgewise.DeviceLost(err) {
		t.Errorf("too much memory: %v", err)
	}
}

func TestRegisteredMemoryIsPinned(t *testing.T) {
	c := retain(t)
	data := mapped(t, 8192)
	p := made[*cuda.Pinned](t)(c.MemHostRegister(data))
	s := made[*cuda.Stream](t)(c.MakeStream())
	d := alloc(t, c, 100)
	if at, ok := p.Contains(data[4096:4196]); !ok || at != 4096 {
		t.Errorf("part of the memory: %d, %v", at, ok)
	}
	if _, ok := p.Contains(make([]byte, 5)); ok {
		t.Error("other memory is said to be part of it")
	}
	if err := errors.Join(s.MemcpyHtoDAsync(d, p, 4096, 100), s.Synchronize()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.MemHostRegister(nil); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("no memory: %v", err)
	}
}

func TestIntegratedDevicesReachPinnedMemory(t *testing.T) {
	c := retain(t)
	p := made[*cuda.Pinned](t)(c.MemHostAlloc(64))
	if _, err := p.DevicePtr(); err == nil || c.Integrated() {
		t.Error("a discrete device has an address for pinned memory")
	}
	control.Set(fakegpu.IsIntegrated, 1)
	i := made[*cuda.Ctx](t)(c.Device().Retain())
	if d, err := p.DevicePtr(); err != nil || d == 0 || !i.Integrated() {
		t.Errorf("%x, %v", d, err)
	}
}

// TestEveryCallReportsItsFault makes each function of the driver fail once, at its own place.
func TestEveryCallReportsItsFault(t *testing.T) {
	c := retain(t)
	s, e, timer := made[*cuda.Stream](t)(c.MakeStream()), made[*cuda.Event](t)(c.MakeEvent()), made[*cuda.Event](t)(c.MakeTimer())
	host := made[*cuda.Pinned](t)(c.MemHostAlloc(64))
	p := alloc(t, c, 64)
	f := kernel(t, c)
	one := cuda.Dim3{X: 1, Y: 1, Z: 1}
	second := func(_ any, err error) error { return err }
	for symbol, call := range map[string]func() error{
		"cuDeviceGetCount":         func() error { return second(driver2(t).NumDevices()) },
		"cuDeviceGetName":          func() error { return second(c.Device().Name()) },
		"cuDeviceGetUuid_v2":       func() error { return second(c.Device().UUID()) },
		"cuDeviceGetPCIBusId":      func() error { return second(c.Device().PCIBusID()) },
		"cuDeviceTotalMem_v2":      func() error { return second(c.Device().TotalMem()) },
		"cuDeviceGetAttribute":     func() error { return second(c.Device().Attribute(cuda.Integrated)) },
		"cuDevicePrimaryCtxRetain": func() error { return second(c.Device().Retain()) },
		"cuCtxSynchronize":         c.Synchronize,
		"cuMemGetInfo_v2":          func() error { _, _, err := c.MemInfo(); return err },
		"cuMemAlloc_v2":            func() error { return second(c.MemAlloc(1)) },
		"cuMemHostAlloc":           func() error { return second(c.MemHostAlloc(1)) },
		"cuMemcpyHtoDAsync_v2":     func() error { return s.MemcpyHtoDAsync(p, host, 0, 64) },
		"cuMemcpyDtoHAsync_v2":     func() error { return s.MemcpyDtoHAsync(host, 0, p, 64) },
		"cuMemcpyDtoDAsync_v2":     func() error { return s.MemcpyDtoDAsync(p, p, 64) },
		"cuMemcpyHtoD_v2":          func() error { return c.MemcpyHtoD(p, []byte{1}) },
		"cuMemcpyDtoH_v2":          func() error { return c.MemcpyDtoH([]byte{1}, p) },
		"cuMemsetD8Async":          func() error { return s.MemsetD8Async(p, 0, 64) },
		"cuStreamCreate":           func() error { return second(c.MakeStream()) },
		"cuStreamSynchronize":      s.Synchronize,
		"cuStreamQuery":            func() error { return second(s.Query()) },
		"cuStreamWaitEvent":        func() error { return s.WaitEvent(e) },
		"cuEventCreate":            func() error { return second(c.MakeEvent()) },
		"cuEventRecord":            func() error { return e.Record(s) },
		"cuEventQuery":             func() error { return second(e.Query()) },
		"cuEventSynchronize":       e.Synchronize,
		"cuEventElapsedTime":       func() error { return second(timer.Since(timer)) },
		"cuModuleLoadDataEx":       func() error { return second(c.LoadData(scalePTX)) },
		"cuLaunchKernel":           func() error { return f.Launch(one, one, 0, s, 0, 0, 0, 0) },
	} {
		t.Run(symbol, func(t *testing.T) {
			control.Fail(symbol, 1, int32(cuda.LaunchOutOfResources), false)
			defer control.Set(fakegpu.FaultCode, 0)
			var r cuda.Result
			if err := call(); !errors.As(err, &r) || r != cuda.LaunchOutOfResources {
				t.Errorf("got %v", err)
			}
		})
	}
}

func driver2(t *testing.T) *cuda.Driver {
	d, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestManyGoroutinesUseOneContext(t *testing.T) {
	c := retain(t)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			s, err := c.MakeStream()
			if err != nil {
				t.Error(err)
				return
			}
			p, err := c.MemHostAlloc(256)
			if err != nil {
				t.Error(err)
				return
			}
			d, err := c.MemAlloc(256)
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if err := errors.Join(s.MemcpyHtoDAsync(d, p, 0, 256), s.Synchronize()); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(s.Close(), p.Close(), c.MemFree(d)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
