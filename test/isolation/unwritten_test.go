package isolation

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// TestAnOutputThatIsAnInputComesBackFromAChild sends requests of six clients, each with numbers of its own, to a model
// that has its input among its outputs, in this process and in a child.
func TestAnOutputThatIsAnInputComesBackFromAChild(t *testing.T) {
	const clients, requests, width = 6, 100, 32
	dims := onnxgen.Batch(width)
	m := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:   []onnxgen.Node{{Op: "Neg", In: []string{"x"}, Out: []string{"y"}}},
		Inputs:  []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: dims}},
		Outputs: []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: dims}, {Name: "y", Type: onnxgen.Float, Dims: dims}},
	}}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	inside, outside := backends(t)
	inspection, err := outside.Inspect(t.Context(), dir, &edgewise.Model{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]edgewise.Backend{"this process": inside, "child": outside} {
		s := scheduled(load(t, b, dir), inspection)
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				wrong := 0
				for n := range requests {
					rows := int64(n%3 + 1)
					x, y := numbers(rows*width, float32(client*requests+n+1))
					r, err := s.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{{
						Name: "x", Type: edgewise.FP32,
						Shape: edgewise.Shape{rows, width}, Data: x,
					}}})
					if err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(r.Outputs[0].Data, x) || !bytes.Equal(r.Outputs[1].Data, y) {
						wrong++
					}
					r.Release()
				}
				if wrong > 0 {
					t.Errorf("%s: %d of %d answers are wrong", name, wrong, requests)
				}
			})
		}
		all.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// numbers makes n times a number, and its negative.
func numbers(n int64, of float32) (x, y []byte) {
	for range n {
		x = binary.LittleEndian.AppendUint32(x, math.Float32bits(of))
		y = binary.LittleEndian.AppendUint32(y, math.Float32bits(-of))
	}
	return x, y
}
