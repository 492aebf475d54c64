package cuda_test

import (
	"errors"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

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
	if err := errors.Join(c.MemcpyHtoD(p, []byte("hello")), c.MemcpyDtoH(got, p), c.MemcpyHtoD(p, nil),
		c.MemcpyDtoH(nil, p)); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMemoryHasAnEnd(t *testing.T) {
	c := retain(t)
	control.Set(fakegpu.Used, 512<<20)
	_, err := c.MemAlloc(513 << 20)
	var r cuda.Result
	if !errors.As(err, &r) || r.Class() != cuda.Retryable || edgewise.KindOf(err) != edgewise.Exhausted ||
		edgewise.DeviceLost(err) {
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
