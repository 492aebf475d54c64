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
	lib.trimmer = &trimmer{waiting: true} // nothing but this test shrinks on behalf of this library
	run := func(elements uint64) {
		n := edgewise.Tensor{
			Name: "n", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint64(nil, elements),
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
	run(1) // the first growth stays
	a := &arena{lib: lib}
	const elements = 64 << 20
	holds := func() bool {
		run(elements)
		unused, err := a.unused()
		return err == nil && unused >= 4*elements
	}
	// Trimmers of libraries that the tests before opened shrink the same arena, a few times at the most.
	for tries := 1; !holds(); tries++ {
		if tries == 20 {
			t.Fatalf("the arena never holds %d unused bytes after a run", 4*elements)
		}
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
