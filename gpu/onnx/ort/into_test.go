package ort

import (
	"context"
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// open loads a model with one input x and one output y.
func open(t *testing.T, m *onnxgen.Model) *Session {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), []string{"x"}, []string{"y"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// memory records what is asked for, and hands it out.
type memory struct {
	asked [][]int64
	last  [][]byte
	shift int // off the alignment
}

func (m *memory) place(sizes []int64) [][]byte {
	m.asked = append(m.asked, sizes)
	m.last = nil
	for _, size := range sizes {
		words := make([]uint64, size/8+17)
		data := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
		skip := -int(uintptr(unsafe.Pointer(&data[0])))&(placeAlignment-1) + m.shift
		m.last = append(m.last, data[skip:skip+int(size)])
	}
	return m.last
}

// each is how often values has each value: memory is handed over only for outputs that are not tiny.
const each = 8

func values(values ...float32) edgewise.Tensor {
	t := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(each * len(values))}}
	for _, v := range values {
		for range each {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
		}
	}
	return t
}

// nonZero makes the positions of the elements that are not 0: as many as the values say, not the shape.
func nonZero() *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name:    "nonzero",
		Nodes:   []onnxgen.Node{{Op: "NonZero", In: []string{"x"}, Out: []string{"y"}}},
		Inputs:  []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch()}},
		Outputs: []onnxgen.Value{{Name: "y", Type: onnxgen.Int64, Dims: append(onnxgen.Dims(1), onnxgen.Dim{Size: -1})}},
	}}
}

func runInto(t *testing.T, s *Session, m *memory, in edgewise.Tensor) edgewise.Tensor {
	t.Helper()
	r, err := s.Run(context.Background(), []edgewise.Tensor{in}, []string{"y"}, edgewise.RunOptions{Place: m.place})
	if err != nil {
		t.Fatal(err)
	}
	out := r.Outputs[0]
	out.Data = append([]byte(nil), out.Data...)
	inPlace := len(m.last) == 1 && len(m.last[0]) > 0 && unsafe.SliceData(r.Outputs[0].Data) == unsafe.SliceData(m.last[0])
	r.Free()
	out.Name = map[bool]string{true: "in place", false: "elsewhere"}[inPlace]
	return out
}

func TestOutputsAreMadeInPlaceOnceTheirShapesAreKnown(t *testing.T) {
	s := open(t, onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: -1}))
	m := &memory{}
	for n, test := range []struct {
		in    edgewise.Tensor
		where string
		asked int
	}{
		{values(1, 2, 3), "elsewhere", 0},
		{values(4, 5, 6), "in place", 1},
		{values(7), "elsewhere", 1},
		{values(8), "in place", 2},
		{values(9, 9, 9), "in place", 3},
	} {
		m.last = nil
		out := runInto(t, s, m, test.in)
		if string(out.Data) != string(test.in.Data) || out.Name != test.where || len(m.asked) != test.asked {
			t.Errorf("run %d: %d bytes %s, asked %d times", n, len(out.Data), out.Name, len(m.asked))
		}
	}
	m.shift = 4
	if out := runInto(t, s, m, values(9, 9, 9)); out.Name != "elsewhere" || len(out.Data) != 12*each {
		t.Errorf("misaligned memory: %s", out.Name)
	}
}

func TestOutputsWhoseShapesVaryAreRight(t *testing.T) {
	s := open(t, nonZero())
	m := &memory{}
	for n, test := range []struct {
		in    edgewise.Tensor
		count int64
		asked int
	}{
		{values(1, 0, 0), 1, 0},
		{values(0, 1, 0), 1, 1}, // as expected
		{values(1, 1, 0), 2, 2}, // larger: run again
		{values(0, 0, 1), 1, 2}, // not asked any more
		{values(1, 1, 1), 3, 2},
	} {
		out := runInto(t, s, m, test.in)
		if !out.Shape.Equal(edgewise.Shape{1, each * test.count}) || int64(len(out.Data)) != 8*each*test.count ||
			len(m.asked) != test.asked {
			t.Errorf("run %d: shape %v, %d bytes, asked %d times", n, out.Shape, len(out.Data), len(m.asked))
		}
	}
}

func TestAnErrorOfAPlacedRunIsTheModels(t *testing.T) {
	s := open(t, onnxgen.Identity(edgewise.FP32, onnxgen.Dims(3*each)...))
	m := &memory{}
	runInto(t, s, m, values(1, 2, 3))
	if _, err := s.Run(t.Context(), []edgewise.Tensor{values(1)}, []string{"y"},
		edgewise.RunOptions{Place: m.place}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx, []edgewise.Tensor{values(1, 2, 3)}, []string{"y"},
		edgewise.RunOptions{Place: m.place}); edgewise.KindOf(err) != edgewise.Canceled {
		t.Errorf("got %v", err)
	}
	if out := runInto(t, s, m, values(1, 2, 3)); out.Name != "in place" {
		t.Error("what was known is forgotten after an error")
	}
}

func TestRememberedShapesAreBounded(t *testing.T) {
	s := open(t, onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: -1}))
	m := &memory{}
	for n := range maxForms + 2 {
		runInto(t, s, m, values(make([]float32, n+1)...))
	}
	if n := len(s.forms.known); n != maxForms {
		t.Errorf("%d forms are remembered", n)
	}
	m.last = nil
	if out := runInto(t, s, m, values(make([]float32, maxForms+1)...)); out.Name != "elsewhere" {
		t.Error("a form beyond the bound is remembered")
	}
}
