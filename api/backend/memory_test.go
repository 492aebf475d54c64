package backend

import (
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func memory(t *testing.T, size int64) *Memory {
	m, err := newMemory("test", size, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestMemoryIsUsedAgain(t *testing.T) {
	m := memory(t, 4096)
	var taken []uint64
	for {
		at, ok := m.Alloc(1000)
		if !ok {
			break
		}
		taken = append(taken, at)
	}
	if len(taken) != 4 {
		t.Fatalf("%d blocks of 1000 bytes fit into 4096, want 4", len(taken))
	}
	if !m.Free(taken[1]) || m.Free(taken[1]) || m.Free(7) {
		t.Error("a block can be freed once, and nothing else")
	}
	if at, ok := m.Alloc(1024); !ok || at != taken[1] {
		t.Errorf("got %d, %v, want the gap at %d", at, ok, taken[1])
	}
	if _, ok := m.Alloc(math.MaxUint64); ok {
		t.Error("a block larger than the memory was given")
	}
}

func TestMemoryStaysUntilItsLastBlockIsFreed(t *testing.T) {
	m := memory(t, 4096)
	at, _ := m.Alloc(10)
	data := m.bytes(&Tensor{Offset: at, Size: 10})
	m.Close()
	data[0] = 1 // would fault
	m.Free(at)
	if m.data != nil {
		t.Error("the memory is still mapped")
	}
}

func TestClaimsMayNotOverlap(t *testing.T) {
	m := memory(t, 4096)
	for _, c := range []struct {
		from, to uint64
		want     bool
	}{
		{128, 256, true},
		{0, 128, true},
		{256, 320, true},
		{64, 192, false},
		{128, 256, false},
		{192, 200, false},
		{0, 4096, false},
		{320, 4096, true},
	} {
		if got := m.claim(c.from, c.to); got != c.want {
			t.Errorf("claim of %d to %d: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestATensorIsCheckedAgainstTheMemory(t *testing.T) {
	m := memory(t, 4096)
	copy(m.data[64:], []byte{1, 0, 0, 0, 'a'})
	for _, c := range []struct {
		name   string
		tensor Tensor
		ok     bool
	}{
		{"right", Tensor{"x", edgewise.FP32, edgewise.Shape{2}, 64, 8}, true},
		{"at the end", Tensor{"x", edgewise.Int8, edgewise.Shape{64}, 4032, 64}, true},
		{"string", Tensor{"x", edgewise.Bytes, edgewise.Shape{1}, 64, 5}, true},
		{"no bytes", Tensor{"x", edgewise.FP32, edgewise.Shape{0}, 0, 0}, true},
		{"wrong size", Tensor{"x", edgewise.FP32, edgewise.Shape{2}, 64, 12}, false},
		{"behind the end", Tensor{"x", edgewise.Int8, edgewise.Shape{65}, 4032, 65}, false},
		{"overflow", Tensor{"x", edgewise.Int8, edgewise.Shape{64}, math.MaxUint64 - 63, 64}, false},
		{"huge shape", Tensor{"x", edgewise.FP64, edgewise.Shape{math.MaxInt64 / 4}, 0, 64}, false},
		{"negative shape", Tensor{"x", edgewise.FP32, edgewise.Shape{-1}, 0, 0}, false},
		{"not aligned", Tensor{"x", edgewise.FP32, edgewise.Shape{2}, 8, 8}, false},
		{"unknown type", Tensor{"x", 15, edgewise.Shape{2}, 64, 8}, false},
		{"no type", Tensor{"x", 0, edgewise.Shape{2}, 64, 8}, false},
		{"bad string", Tensor{"x", edgewise.Bytes, edgewise.Shape{1}, 64, 4}, false},
	} {
		if _, err := m.tensor(&c.tensor); (err == nil) != c.ok {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestPagesBehindTheLastBlockGoBackToTheSystem(t *testing.T) {
	m := memory(t, 64<<20)
	at, _ := m.Alloc(60 << 20)
	data := m.bytes(&Tensor{Offset: at, Size: 60 << 20})
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
	m.Free(at)
	if data[59<<20] != 0 || data[0] != 1 {
		t.Errorf("got %d behind what is kept and %d in it, want 0 and 1", data[59<<20], data[0])
	}
}
