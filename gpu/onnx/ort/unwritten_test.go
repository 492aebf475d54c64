package ort

import (
	"bytes"
	"context"
	"crypto/rand"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// passThrough makes y = -x, and x itself as an output, of 64 rows of 8.
func passThrough() *onnxgen.Model {
	dims := onnxgen.Dims(64, 8)
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:   []onnxgen.Node{{Op: "Neg", In: []string{"x"}, Out: []string{"y"}}},
		Inputs:  []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: dims}},
		Outputs: []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: dims}, {Name: "y", Type: onnxgen.Float, Dims: dims}},
	}}
}

// session opens a model with all inputs and outputs that its graph has.
func session(t *testing.T, m *onnxgen.Model) (s *Session, outputs []string) {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	var inputs []string
	for _, v := range m.Graph.Inputs {
		inputs = append(inputs, v.Name)
	}
	for _, v := range m.Graph.Outputs {
		outputs = append(outputs, v.Name)
	}
	s, err = lib.NewSession(filepath.Join(dir, "model.onnx"), inputs, outputs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, outputs
}

// random makes 64 rows of 8 numbers.
func random(t *testing.T) edgewise.Tensor {
	t.Helper()
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{64, 8}, Data: make([]byte, 4*64*8)}
	if _, err := rand.Read(in.Data); err != nil {
		t.Fatal(err)
	}
	for i := 3; i < len(in.Data); i += 4 {
		in.Data[i] = 0x40 // a number
	}
	return in
}

// negated is what Neg makes of FP32.
func negated(data []byte) []byte {
	out := bytes.Clone(data)
	for i := 3; i < len(out); i += 4 {
		out[i] ^= 0x80
	}
	return out
}

// poisoned hands out memory that is full of one byte.
func poisoned(sizes []int64) [][]byte {
	memory := make([][]byte, len(sizes))
	for i, size := range sizes {
		words := make([]uint64, size/8+16)
		data := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
		skip := -int(uintptr(unsafe.Pointer(&data[0]))) & (placeAlignment - 1)
		memory[i] = data[skip : skip+int(size)]
		for k := range memory[i] {
			memory[i][k] = 0xAB
		}
	}
	return memory
}

func TestAnOutputThatIsAnInputIsTheInput(t *testing.T) {
	s, _ := session(t, passThrough())
	for _, want := range [][]string{{"x", "y"}, {"y", "x"}, {"x"}, {"y", "y"}} {
		for run := range 4 {
			in := random(t)
			r, err := s.Run(context.Background(), []edgewise.Tensor{in}, want, edgewise.RunOptions{Place: poisoned})
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range want {
				expected := in.Data
				if name == "y" {
					expected = negated(in.Data)
				}
				if !bytes.Equal(r.Outputs[i].Data, expected) {
					t.Errorf("run %d of %v: output %d, %q, is %x...", run, want, i, name, r.Outputs[i].Data[:8])
				}
			}
			r.Free()
		}
	}
}

// The caller may write to an input once the run has returned.
func TestAnOutputIsNotInTheMemoryOfAnInput(t *testing.T) {
	s, outputs := session(t, passThrough())
	in := random(t)
	before := bytes.Clone(in.Data)
	r, err := s.Run(context.Background(), []edgewise.Tensor{in}, outputs, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	clear(in.Data)
	if !bytes.Equal(r.Outputs[0].Data, before) {
		t.Error("output x changes with the memory of input x")
	}
}

// Outputs that are written are still made in place, those beside them are not.
func TestOnlyTheUnwrittenOutputIsMadeElsewhere(t *testing.T) {
	s, outputs := session(t, passThrough())
	for run := range 5 {
		m := &memory{}
		in := random(t)
		r, err := s.Run(context.Background(), []edgewise.Tensor{in}, outputs, edgewise.RunOptions{Place: m.place})
		if err != nil {
			t.Fatal(err)
		}
		if run > 2 {
			if len(m.asked) != 1 || !slices.Equal(m.asked[0], []int64{0, int64(len(in.Data))}) {
				t.Fatalf("run %d asked for %v", run, m.asked)
			}
			if unsafe.SliceData(r.Outputs[1].Data) != unsafe.SliceData(m.last[1]) {
				t.Error("the output that is written is not in place")
			}
		}
		r.Free()
	}
}

// A binding says so when the runtime has put an output elsewhere than it was told.
func TestABoundOutputThatIsNotWrittenIsAnError(t *testing.T) {
	s, outputs := session(t, passThrough())
	in := random(t)
	at := func(name string, data []byte) Bound {
		return Bound{
			Name: name, Type: edgewise.FP32, Shape: in.Shape, Address: uintptr(unsafe.Pointer(&data[0])),
			Size: int64(len(data)),
		}
	}
	first, second := poisoned([]int64{2048})[0], poisoned([]int64{2048})[0]
	b, err := s.NewBinding(BindingConfig{
		Inputs:  []Bound{at("x", in.Data)},
		Outputs: []Bound{at(outputs[0], first), at(outputs[1], second)}, Memory: HostMemory,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 2 {
		if err := b.Run(); err == nil {
			t.Error("an output that was not written has no error")
		}
	}
}

func TestTinyOutputsAreCopied(t *testing.T) {
	s := open(t, onnxgen.Identity(edgewise.FP32, onnxgen.Dims(4)...))
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{4}, Data: make([]byte, 16)}
	m := &memory{}
	for range 3 {
		runInto(t, s, m, in)
	}
	if len(m.asked) != 0 {
		t.Errorf("asked for %v", m.asked)
	}
}

func TestMarksFindWhatWasNotWritten(t *testing.T) {
	m := newMarks()
	for _, test := range []struct {
		name  string
		write func(data []byte)
		whole bool
		left  bool
	}{
		{"all", func(data []byte) { clear(data) }, true, false},
		{"nothing", func([]byte) {}, false, true},
		{"not the first word", func(data []byte) { clear(data[4:]) }, true, true},
		{"not the last word", func(data []byte) { clear(data[:len(data)-4]) }, true, true},
		{"not one in the middle", func(data []byte) { clear(data[:400]); clear(data[404:]) }, true, true},
		{"a shorter tensor", func(data []byte) { clear(data[:len(data)/2]) }, false, true},
		{"a later one", func(data []byte) { clear(data[len(data)/2:]) }, false, true},
	} {
		for _, size := range []int{1000, 1001, 1002, 1003, 1024, 4096} {
			into := []destination{{}, {data: make([]byte, size)}}
			m.put(into, test.whole)
			test.write(into[1].data)
			if left := m.left(into, test.whole); (len(left) > 0) != test.left || test.left && left[0] != 1 {
				t.Errorf("%s, %d bytes: %v", test.name, size, left)
			}
		}
	}
}
