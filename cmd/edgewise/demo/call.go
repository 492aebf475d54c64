package demo

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// output is an FP32 output tensor, read.
type output struct {
	shape  edgewise.Shape
	values []float32
}

// want is an output to ask for and the shape it must have, -1 standing for any size.
type want struct {
	name  string
	shape edgewise.Shape
}

// call runs one inference and returns the wanted outputs, copied out of the response. An output that is missing or not
// as wanted is an Invalid error: another model answers under this name.
func call(ctx context.Context, box edgewise.Inferer, model string, inputs []edgewise.Tensor, wanted ...want) ([]output, error) {
	request := &edgewise.Request{Model: edgewise.ModelID{Name: model}, Inputs: inputs}
	for _, w := range wanted {
		request.Outputs = append(request.Outputs, w.name)
	}
	response, err := box.Infer(ctx, request)
	if err != nil {
		return nil, err
	}
	defer response.Release()
	outputs := make([]output, len(wanted))
	for i, w := range wanted {
		if outputs[i], err = pick(response, model, w); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}

func pick(response *edgewise.Response, model string, w want) (output, error) {
	for i := range response.Outputs {
		tensor := &response.Outputs[i]
		if tensor.Name != w.name {
			continue
		}
		if err := tensor.Check(); err != nil {
			return output{}, edgewise.Errorf("demo.call", edgewise.Invalid, "model %q: %w", model, err)
		}
		if tensor.Type != edgewise.FP32 || !w.shape.Accepts(tensor.Shape) {
			return output{}, edgewise.Errorf("demo.call", edgewise.Invalid,
				"model %q: output %q: want FP32%v, got %v%v: it is not the model this demo knows",
				model, w.name, w.shape, tensor.Type, tensor.Shape)
		}
		return output{shape: append(edgewise.Shape{}, tensor.Shape...), values: decodeFloats(tensor.Data)}, nil
	}
	return output{}, edgewise.Errorf("demo.call", edgewise.Invalid,
		"model %q: no output %q: it is not the model this demo knows", model, w.name)
}

func decodeFloats(data []byte) []float32 {
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}

// floats makes an FP32 tensor. len(values) is what shape says.
func floats(name string, values []float32, shape ...int64) edgewise.Tensor {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape, Data: data}
}
