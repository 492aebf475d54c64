package cuda_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

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
		s.MemcpyDtoHAsync(host, 0, b, 12), s.Synchronize(),
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
