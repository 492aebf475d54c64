package cuda_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

func mapped(t *testing.T, n int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

// TestKernelFaultSticks runs in a process of its own, as a device that is lost is lost for its process.
func TestKernelFaultSticks(t *testing.T) {
	if os.Getenv("EDGEWISE_LOSE_DEVICE") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKernelFaultSticks$")
		cmd.Env = append(os.Environ(), "EDGEWISE_LOSE_DEVICE=1", "FAKEGPU_CONTROL="+t.TempDir()+"/control")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d, err := driver(t).GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Retain()
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.MakeStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.LoadData(scalePTX)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("scale")
	if err != nil {
		t.Fatal(err)
	}
	control.Fail("kernel", 1, int32(cuda.IllegalAddress), true)
	one := cuda.Dim3{X: 1, Y: 1, Z: 1}
	if err := f.Launch(one, one, 0, s, 0, 0, 0, 0); err != nil {
		t.Fatalf("a launch is told of its fault later, and not at once: %v", err)
	}
	for name, err := range map[string]error{"stream": s.Synchronize(), "context": c.Synchronize()} {
		var r cuda.Result
		if !errors.As(err, &r) || r.Class() != cuda.Sticky || !edgewise.DeviceLost(err) ||
			edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(err.Error(), "illegal memory access") {
			t.Errorf("%s: the driver's own words are missing: %v", name, err)
		}
	}
	if _, err := c.MemAlloc(1); !edgewise.DeviceLost(err) {
		t.Errorf("a call after it: %v", err)
	}
}

func TestClassesOfResults(t *testing.T) {
	for r, want := range map[cuda.Result]cuda.Class{
		cuda.OutOfMemory: cuda.Retryable, cuda.InvalidValue: cuda.Usage, cuda.InvalidContext: cuda.Usage, cuda.InvalidHandle: cuda.Usage,
		cuda.NoDevice: cuda.Absent, cuda.SystemDriverMismatch: cuda.Absent, cuda.IllegalAddress: cuda.Sticky, cuda.LaunchFailed: cuda.Sticky,
		cuda.ECCUncorrectable: cuda.Sticky, cuda.Unknown: cuda.Sticky, cuda.NoBinaryForGPU: cuda.Other, cuda.LaunchOutOfResources: cuda.Other,
	} {
		if r.Class() != want {
			t.Errorf("%v is %v, want %v", r, r.Class(), want)
		}
	}
	if text := cuda.Result(4711).Error(); text != "CUDA error 4711" {
		t.Errorf("a number without a name: %s", text)
	}
}
