package ort

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestTheArenaIsSharedAndShrinks runs a model whose output, of memory of the runtime, takes 256 MiB.
func TestTheArenaIsSharedAndShrinks(t *testing.T) {
	dir := t.TempDir()
	m := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:   []onnxgen.Node{{Op: "ConstantOfShape", In: []string{"n"}, Out: []string{"y"}}},
		Inputs:  []onnxgen.Value{{Name: "n", Type: onnxgen.Int64, Dims: onnxgen.Dims(1)}},
		Outputs: []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: []onnxgen.Dim{{Name: "length"}}}},
	}}
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), []string{"n"}, []string{"y"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const elements = 64 << 20
	for _, size := range []uint64{1, elements} { // the first growth stays
		n := edgewise.Tensor{
			Name: "n", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint64(nil, size),
		}
		r, err := s.Run(context.Background(), []edgewise.Tensor{n}, []string{"y"}, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lib.trimmer.recent.Store(false)
		r.Free()
		if !lib.trimmer.recent.Load() {
			t.Error("nobody looks at the arena after outputs were released")
		}
	}
	a := &arena{lib: lib}
	if unused, err := a.unused(); err != nil || unused < 4*elements {
		t.Errorf("the arena holds %d unused bytes (%v), want %d at least", unused, err, 4*elements)
	}
	if err := a.shrink(); err != nil {
		t.Fatal(err)
	}
	if unused, err := a.unused(); err != nil || unused > maxDoubling {
		t.Errorf("the arena holds %d unused bytes after shrinking (%v)", unused, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
