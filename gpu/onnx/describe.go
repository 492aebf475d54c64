package onnx

import (
	"context"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// asWritten is Triton's number for no optimization of the graph.
const asWritten = 2

// Describe loads the model as it is written and returns what ONNX Runtime has inferred of its outputs.
func (b *Backend) Describe(ctx context.Context, dir string, m *edgewise.Model) ([]edgewise.TensorInfo, error) {
	folder, file := modelFile(dir, m)
	if _, err := onnxfile.Read(folder, file, onnxfile.DefaultLimits()); err != nil { // nothing that it refuses reaches native code
		return nil, err
	}
	lib, err := b.open()
	if err != nil {
		return nil, edgewise.Errorf("onnx.Describe", edgewise.KindOf(err),
			"the model's file leaves the type or the shape of an output to the runtime: %w", err)
	}
	session, err := lib.NewSession(filepath.Join(folder, file), nil, nil, ort.Options{Optimization: asWritten})
	if err != nil {
		return nil, err
	}
	outputs, err := session.Outputs()
	if closing := session.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	infos := make([]edgewise.TensorInfo, len(outputs))
	for i, v := range outputs {
		infos[i] = edgewise.TensorInfo{Name: v.Name, Type: v.Type, Datatype: described(v), Shape: v.Shape}
	}
	return infos, ctx.Err()
}

// described says in words what a value is that is no tensor of a known type.
func described(v ort.Value) string {
	switch {
	case !v.Tensor:
		return "a sequence, a map or an optional"
	case v.Type == edgewise.InvalidType:
		return "a tensor of a type that the protocol does not have"
	}
	return v.Type.String()
}
