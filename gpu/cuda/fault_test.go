package cuda_test

import (
	"errors"
	"testing"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// TestEveryCallReportsItsFault makes each function of the driver fail once, at its own place.
func TestEveryCallReportsItsFault(t *testing.T) {
	c := retain(t)
	s, e := made[*cuda.Stream](t)(c.MakeStream()), made[*cuda.Event](t)(c.MakeEvent())
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
		"cuMemAlloc_v2":            func() error { return second(c.MemAlloc(1)) },
		"cuMemHostAlloc":           func() error { return second(c.MemHostAlloc(1)) },
		"cuMemcpyHtoDAsync_v2":     func() error { return s.MemcpyHtoDAsync(p, host, 0, 64) },
		"cuMemcpyDtoHAsync_v2":     func() error { return s.MemcpyDtoHAsync(host, 0, p, 64) },
		"cuMemcpyHtoD_v2":          func() error { return c.MemcpyHtoD(p, []byte{1}) },
		"cuMemcpyDtoH_v2":          func() error { return c.MemcpyDtoH([]byte{1}, p) },
		"cuMemsetD8Async":          func() error { return s.MemsetD8Async(p, 0, 64) },
		"cuStreamCreate":           func() error { return second(c.MakeStream()) },
		"cuStreamSynchronize":      s.Synchronize,
		"cuStreamWaitEvent":        func() error { return s.WaitEvent(e) },
		"cuEventCreate":            func() error { return second(c.MakeEvent()) },
		"cuEventRecord":            func() error { return e.Record(s) },
		"cuEventSynchronize":       e.Synchronize,
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
