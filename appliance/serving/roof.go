package serving

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

// Roof writes an ONNX model, from x to y, both FP32 of one row and one column, into a folder, and loads it on the CPU with so
// many threads, where the models of the box are loaded: to measure what the processor does. Errors: those of a load.
func (l *Loader) Roof(ctx context.Context, dir string, file []byte, threads int) (edgewise.Instance, error) {
	if err := os.WriteFile(filepath.Join(dir, onnx.DefaultFilename), file, 0o644); err != nil {
		return nil, edgewise.Errorf("serving.Roof", edgewise.Internal, "%w", err)
	}
	one := edgewise.Shape{1, 1}
	m := &edgewise.Model{
		Name: "roofline", Platform: onnx.Platform,
		Input:      []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: one}},
		Output:     []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: one}},
		Parameters: map[string]edgewise.ModelParam{"intra_op_thread_count": {StringValue: strconv.Itoa(threads)}},
	}
	b, _, err := l.find(m)
	if err != nil {
		return nil, err
	}
	return b.Load(ctx, &edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 1}, Model: m}, dir, edgewise.Device{Kind: edgewise.CPU})
}
