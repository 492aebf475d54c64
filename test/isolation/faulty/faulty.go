// Package faulty is the ONNX backend with models that crash: real segmentation faults inside ONNX Runtime, at a moment
// that a test picks. It is built into test programs only.
package faulty

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

// Models whose names begin with these crash: when they are loaded; or when the first four bytes of their first
// input are the number Poison, a denormal that no trial of a model makes.
const (
	InLoad = "crash-in-load"
	InRun  = "crash-in-run"
	InPath = "path-of-run" // it does not crash, but names the functions that lead to the runtime
	Poison = 0xFF
)

// New makes the backend of a child of the box from the options that the box hands it.
func New(s runner.Start) (edgewise.Backend, error) {
	var o struct {
		Library string `json:"library"`
	}
	err := json.Unmarshal(s.Options, &o)
	return backend{onnx.New(onnx.Config{Library: o.Library, Logger: slog.New(slog.DiscardHandler)})}, err
}

type backend struct{ *onnx.Backend }

// Load loads a version, and crashes when its name says so.
func (b backend) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance,
	error,
) {
	i, err := b.Backend.Load(ctx, v, dir, on)
	if err != nil {
		return nil, err
	}
	model := instance{i, strings.HasPrefix(v.ID.Name, InRun), strings.HasPrefix(v.ID.Name, InPath)}
	if strings.HasPrefix(v.ID.Name, InLoad) {
		return nil, model.crash(ctx, first(v.Model), v.Model.Output[0].Name)
	}
	return model, nil
}

type instance struct {
	edgewise.Instance
	crashes   bool
	tellsPath bool
}

// Run runs, and crashes on poison.
func (i instance) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if i.crashes && len(in) > 0 && len(in[0].Data) >= 4 && binary.LittleEndian.Uint32(in[0].Data) == Poison {
		return nil, i.crash(ctx, in[0], want[0])
	}
	if i.tellsPath {
		done := make(chan struct{})
		defer close(done)
		go tellPath(done)
	}
	return i.Instance.Run(ctx, in, want, options)
}

// crash lets ONNX Runtime read an input from memory that may not be read. It returns only when that did not work.
func (i instance) crash(ctx context.Context, in edgewise.Tensor, want string) error {
	closed, err := unix.Mmap(-1, 0, len(in.Data), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	in.Data = closed
	_, err = i.Instance.Run(ctx, []edgewise.Tensor{in}, []string{want}, edgewise.RunOptions{})
	return edgewise.Errorf("faulty.crash", edgewise.Internal, "the runtime read what may not be read: %v", err)
}

// first makes a tensor for a model's first input.
func first(m *edgewise.Model) edgewise.Tensor {
	spec := m.Inputs()[0]
	shape := append(edgewise.Shape(nil), spec.Shape...)
	for d := range shape {
		shape[d] = max(shape[d], 1)
	}
	n, _ := shape.Elements()
	return edgewise.Tensor{Name: spec.Name, Type: spec.Type, Shape: shape, Data: make([]byte, n*spec.Type.Size())}
}
