package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// description is what edgewise_describe returns.
type description struct {
	Name         string                 `json:"name"`
	Version      string                 `json:"version"`
	Description  string                 `json:"description"`
	MaxBatchSize int32                  `json:"max_batch_size"`
	Decoupled    bool                   `json:"decoupled"`
	Inputs       []describedTensor      `json:"inputs"`
	Outputs      []describedTensor      `json:"outputs"`
	Parameters   []descriptionParameter `json:"parameters"`
}

type describedTensor struct {
	Name        string         `json:"name"`
	Datatype    string         `json:"datatype"`
	Shape       edgewise.Shape `json:"shape"`
	Optional    bool           `json:"optional"`
	Description string         `json:"description"`
}

type descriptionParameter struct {
	Name        string `json:"name"`
	Default     string `json:"default"`
	Description string `json:"description"`
}

// describe asks a guest, which is used for nothing else, for its description. It returns nil when the module has none.
func (p *program) describe(ctx context.Context, g *guest) (*description, error) {
	if p.module.Export(exportDescribe, fuel.Function) == nil {
		return nil, nil
	}
	c := begin(ctx, p, p.config.SetupTimeout, never)
	defer c.rest()
	c.g = g
	c.fund()
	var stack [1]uint64
	if err := c.invoke(exportDescribe, g.module.ExportedFunction(exportDescribe), stack[:]); err != nil {
		return nil, err
	}
	text, err := g.text(uint32(stack[0]))
	if err != nil {
		return nil, err
	}
	return parseDescription(text)
}

// text reads {u32 length; u8 bytes[length]}.
func (g *guest) text(pointer uint32) ([]byte, error) {
	fail := func(format string, args ...any) error {
		return edgewise.Errorf("wasm.Inspect", edgewise.Guest, "step: edgewise_describe: %s", fmt.Sprintf(format, args...))
	}
	header, ok := g.linear.Read(pointer, 4)
	if !ok {
		return nil, fail("its result %d leaves the memory, which has %d bytes", pointer, g.linear.Size())
	}
	size := binary.LittleEndian.Uint32(header)
	if size > MaxDescribe {
		return nil, fail("length is %d: at most %d bytes are allowed", size, MaxDescribe)
	}
	if pointer > 1<<32-1-4 {
		return nil, fail("its result %d leaves the memory, which has %d bytes", pointer, g.linear.Size())
	}
	text, ok := g.linear.Read(pointer+4, size)
	if !ok {
		return nil, fail("%d bytes at %d leave the memory, which has %d", size, pointer+4, g.linear.Size())
	}
	return text, nil
}

// parseDescription decodes and checks a description.
func parseDescription(text []byte) (*description, error) {
	fail := func(format string, args ...any) error {
		return edgewise.Errorf("wasm.Inspect", edgewise.Invalid, "step: edgewise_describe: %s", fmt.Sprintf(format, args...))
	}
	if !utf8.Valid(text) {
		return nil, fail("it is not UTF-8")
	}
	d := &description{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(d); err != nil {
		return nil, fail("%v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fail("something follows the document")
	}
	if d.MaxBatchSize < 0 {
		return nil, fail("max_batch_size is %d: want 0 or more", d.MaxBatchSize)
	}
	if len(d.Outputs) == 0 {
		return nil, fail("outputs: want at least one")
	}
	for side, list := range map[string][]describedTensor{"inputs": d.Inputs, "outputs": d.Outputs} {
		if len(list) > MaxTensors {
			return nil, fail("%s: %d tensors: at most %d are allowed", side, len(list), MaxTensors)
		}
		seen := map[string]bool{}
		for i, t := range list {
			if reason := t.check(d.MaxBatchSize); reason != "" {
				return nil, fail("%s[%d] %q: %s", side, i, t.Name, reason)
			}
			if seen[t.Name] {
				return nil, fail("%s[%d]: %q is listed twice", side, i, t.Name)
			}
			seen[t.Name] = true
		}
	}
	return d, nil
}

// check returns what is wrong with a tensor, "" when nothing is.
func (t describedTensor) check(batch int32) string {
	if t.Name == "" || len(t.Name) > MaxNameBytes {
		return fmt.Sprintf("name has %d bytes: want 1 to %d", len(t.Name), MaxNameBytes)
	}
	if _, ok := edgewise.ParseDataType(t.Datatype); !ok {
		return fmt.Sprintf("datatype %q does not exist: want a name such as FP32 or BYTES", t.Datatype)
	}
	if t.Shape == nil {
		return "shape is missing"
	}
	if len(t.Shape) > edgewise.MaxRank {
		return fmt.Sprintf("shape has %d dimensions: at most %d are allowed", len(t.Shape), edgewise.MaxRank)
	}
	for _, d := range t.Shape {
		if d < -1 {
			return fmt.Sprintf("shape %v: want sizes of 0 or more, or -1 for any", t.Shape)
		}
	}
	if batch > 0 && (len(t.Shape) == 0 || t.Shape[0] != -1) {
		return fmt.Sprintf("shape %v: with max_batch_size %d the first size is -1", t.Shape, batch)
	}
	return ""
}

// inspection converts a description to the type that all backends return.
func (d *description) inspection() *edgewise.Inspection {
	ins := &edgewise.Inspection{
		Producer: d.Name, Opsets: map[string]int64{}, Operators: map[string]int{}, Metadata: map[string]string{},
		MaxBatchSize: &d.MaxBatchSize, Decoupled: d.Decoupled, Inputs: tensorInfos(d.Inputs), Outputs: tensorInfos(d.Outputs),
	}
	for key, text := range map[string]string{"version": d.Version, "description": d.Description} {
		if text != "" {
			ins.Metadata[key] = text
		}
	}
	for _, t := range append(d.Inputs[:len(d.Inputs):len(d.Inputs)], d.Outputs...) {
		if t.Description != "" {
			ins.Metadata["tensor."+t.Name] = t.Description
		}
	}
	for _, p := range d.Parameters {
		ins.Metadata["parameter."+p.Name] = "default " + strconv.Quote(p.Default) + ": " + p.Description
	}
	return ins
}

func tensorInfos(list []describedTensor) []edgewise.TensorInfo {
	infos := make([]edgewise.TensorInfo, len(list))
	for i, t := range list {
		kind, _ := edgewise.ParseDataType(t.Datatype)
		infos[i] = edgewise.TensorInfo{Name: t.Name, Type: kind, Datatype: t.Datatype, Shape: t.Shape, Optional: t.Optional}
	}
	return infos
}

// declared returns the inspection of a module without a description: the tensors that its configuration declares.
func declared(m *edgewise.Model) *edgewise.Inspection {
	ins := &edgewise.Inspection{
		Opsets: map[string]int64{}, Operators: map[string]int{}, Metadata: map[string]string{},
		Inputs: []edgewise.TensorInfo{}, Outputs: []edgewise.TensorInfo{},
	}
	info := func(name string, t edgewise.DataType, shape edgewise.Shape, optional bool) edgewise.TensorInfo {
		return edgewise.TensorInfo{Name: name, Type: t, Datatype: t.String(), Shape: shape, Optional: optional}
	}
	for _, in := range m.Input {
		ins.Inputs = append(ins.Inputs, info(in.Name, in.DataType, guestShape(m, in.Dims, in.Reshape), in.Optional))
	}
	for _, out := range m.Output {
		ins.Outputs = append(ins.Outputs, info(out.Name, out.DataType, guestShape(m, out.Dims, out.Reshape), false))
	}
	return ins
}

// guestShape returns the shape that the step receives where the configuration declares dims.
func guestShape(m *edgewise.Model, dims edgewise.Shape, r *edgewise.Reshape) edgewise.Shape {
	if r != nil {
		dims = r.Shape
	}
	if m.MaxBatchSize > 0 {
		return append(edgewise.Shape{-1}, dims...)
	}
	return append(edgewise.Shape{}, dims...)
}
