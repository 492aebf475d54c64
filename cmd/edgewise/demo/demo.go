// Package demo sends files to the demonstration's pipelines, which are models of the box (configs/demo/pipelines), and
// gives their answers a form for people: text in reading order, faces and speech, printed or drawn.
package demo

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// ask sends a file, the one element of a BYTES input, to a pipeline, and passes what it answers to read. An answer that
// does not have the outputs that read looks for is an Invalid error: another model has the name of the pipeline.
func ask(ctx context.Context, box edgewise.Inferer, pipeline string, file edgewise.Tensor, read func(*answer)) error {
	response, err := box.Infer(ctx, &edgewise.Request{
		Model: edgewise.ModelID{Name: pipeline}, Inputs: []edgewise.Tensor{file},
	})
	if err != nil {
		return err
	}
	defer response.Release()
	a := &answer{pipeline: pipeline, outputs: response.Outputs}
	read(a)
	return a.err
}

// answer is what a pipeline has answered.
type answer struct {
	pipeline string
	outputs  []edgewise.Tensor
	err      error // the first output that is not as it should be
}

// floats returns the values of an FP32 output with at least so many rows of each values; none after a failure.
func (a *answer) floats(name string, rows, each int) []float32 {
	tensor := a.find(name, edgewise.FP32)
	values := make([]float32, len(tensor.Data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(tensor.Data[4*i:]))
	}
	if len(values) < rows*each || len(values)%each != 0 {
		a.fail("output %q: want at least %d rows of %d values, got %d values", name, rows, each, len(values))
		return make([]float32, rows*each)
	}
	return values
}

// texts returns the elements of a BYTES output.
func (a *answer) texts(name string) []string {
	var texts []string
	for element := range edgewise.Elements(a.find(name, edgewise.Bytes).Data) {
		texts = append(texts, string(element))
	}
	return texts
}

func (a *answer) find(name string, kind edgewise.DataType) edgewise.Tensor {
	for _, tensor := range a.outputs {
		switch err := tensor.Check(); {
		case tensor.Name != name:
		case err != nil:
			a.fail("%w", err)
			return edgewise.Tensor{}
		case tensor.Type != kind:
			a.fail("output %q: want %v, got %v", name, kind, tensor.Type)
			return edgewise.Tensor{}
		default:
			return tensor
		}
	}
	a.fail("it has no output %q", name)
	return edgewise.Tensor{}
}

func (a *answer) fail(format string, args ...any) {
	if a.err == nil {
		a.err = edgewise.Errorf("demo.ask", edgewise.Invalid, "model %q is not the demo's pipeline: "+format,
			append([]any{a.pipeline}, args...)...)
	}
}
