// Package models is a registry of models on a real store for tests, with a backend whose models answer with the
// content of their file, and without a frontend.
package models

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// Echo is a backend whose models answer with the content of their file, "x" excepted: that one does not load.
type Echo struct {
	Loads  atomic.Int64                          // that went well
	Loaded atomic.Int64                          // instances that have not been closed
	Hook   func(stage, content string) error     // called at "inspect", "load" and "run", unless nil; set before the first use
	Wrap   func(*EchoInstance) edgewise.Instance // what an instance is, unless nil
}

func (e *Echo) at(stage, content string) error {
	if e.Hook == nil {
		return nil
	}
	return e.Hook(stage, content)
}

// Formats has that of ONNX models.
func (*Echo) Formats() []edgewise.Format { return Formats()[:1] }

// Formats are those that the appliance serves.
func Formats() edgewise.Formats {
	cpu := []edgewise.DeviceKind{edgewise.CPU}
	return edgewise.Formats{
		{Platform: "onnxruntime_onnx", Backend: "onnxruntime", File: "model.onnx", Devices: append(cpu, edgewise.GPU)},
		{Platform: "wasm", Backend: "wasm", File: "model.wasm", Devices: cpu, Guest: true},
		ensemble.Format(),
	}
}

// Inspect finds an input "in" and an output "out", both BYTES.
func (e *Echo) Inspect(_ context.Context, dir string, _ *edgewise.Model) (*edgewise.Inspection, error) {
	data, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err == nil {
		err = e.at("inspect", string(data))
	}
	if err != nil {
		return nil, err
	}
	return &edgewise.Inspection{
		Inputs:  []edgewise.TensorInfo{{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}}},
		Outputs: []edgewise.TensorInfo{{Name: "out", Type: edgewise.Bytes, Shape: edgewise.Shape{1}}},
	}, nil
}

// Load reads the model's file.
func (e *Echo) Load(_ context.Context, _ *edgewise.Version, dir string, _ edgewise.Device) (edgewise.Instance, error) {
	data, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return nil, err
	}
	if string(data) == "x" {
		return nil, edgewise.Errorf("echo.Load", edgewise.Invalid, "broken on purpose")
	}
	if err := e.at("load", string(data)); err != nil {
		return nil, err
	}
	e.Loads.Add(1)
	e.Loaded.Add(1)
	i := &EchoInstance{e, string(data)}
	if e.Wrap != nil {
		return e.Wrap(i), nil
	}
	return i, nil
}

// EchoInstance is a loaded model.
type EchoInstance struct {
	backend *Echo
	content string
}

// Run answers with the content of the model's file.
func (i *EchoInstance) Run(context.Context, []edgewise.Tensor, []string, edgewise.RunOptions) (*edgewise.Result, error) {
	if err := i.backend.at("run", i.content); err != nil {
		return nil, err
	}
	out := edgewise.Tensor{Name: "out", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, i.content)}
	return &edgewise.Result{Outputs: []edgewise.Tensor{out}, Free: func() {}}, nil
}

// Close counts the instance out.
func (i *EchoInstance) Close() error {
	i.backend.Loaded.Add(-1)
	return nil
}

// File is a file of an upload.
type File = struct{ Path, Content string }

// Upload makes an upload of files.
func Upload(name string, files ...File) edgewise.Upload {
	return edgewise.Upload{Model: name, Size: -1, Next: func() (string, int64, io.Reader, error) {
		if len(files) == 0 {
			return "", 0, nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return f.Path, int64(len(f.Content)), strings.NewReader(f.Content), nil
	}}
}
