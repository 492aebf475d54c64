package ort

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestIdleCallsPointAtNoInputs guards the garbage collector: a pointer left in C memory is shaded when the next one is
// stored over it, and by then its request may have been freed.
func TestIdleCallsPointAtNoInputs(t *testing.T) {
	dir := t.TempDir()
	m := onnxgen.AddSub()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	var inputs, outputs []string
	for _, in := range m.Graph.Inputs {
		inputs = append(inputs, in.Name)
	}
	for _, out := range m.Graph.Outputs {
		outputs = append(outputs, out.Name)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), inputs, outputs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tensors := make([]edgewise.Tensor, len(inputs))
	for i, name := range inputs {
		tensors[i] = edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{1, 16}, Data: make([]byte, 64)}
	}
	unknown := append(tensors[:1:1], edgewise.Tensor{Name: "nobody"})
	for _, test := range []struct {
		name string
		in   []edgewise.Tensor
		ok   bool
	}{{"after a run", tensors, true}, {"after a refused run", unknown, false}} {
		t.Run(test.name, func(t *testing.T) {
			r, err := s.Run(context.Background(), test.in, outputs, edgewise.RunOptions{})
			if (err == nil) != test.ok {
				t.Fatal(err)
			}
			if err == nil {
				r.Free()
			}
			c := <-s.calls
			for i := range c.inputs {
				if c.inputs[i].data != nil {
					t.Errorf("input %d is still pointed at", i)
				}
			}
			s.calls <- c
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
