//go:build wasip1

// Command conformance is the conformance step in Go: what it does, and why, is in sdk/conformance/README.md.
package main

import (
	"errors"
	"slices"
	"strconv"

	step "github.com/edgewise-ai/edgewise/sdk/go"
)

const description = `{"name": "conformance", "version": "1.0.0", "description": "exercises the whole ABI",
  "inputs": [
    {"name": "bool", "datatype": "BOOL", "shape": [-1], "optional": true},
    {"name": "uint8", "datatype": "UINT8", "shape": [-1], "optional": true},
    {"name": "uint16", "datatype": "UINT16", "shape": [-1], "optional": true},
    {"name": "uint32", "datatype": "UINT32", "shape": [-1], "optional": true},
    {"name": "uint64", "datatype": "UINT64", "shape": [-1], "optional": true},
    {"name": "int8", "datatype": "INT8", "shape": [-1], "optional": true},
    {"name": "int16", "datatype": "INT16", "shape": [-1], "optional": true},
    {"name": "int32", "datatype": "INT32", "shape": [-1], "optional": true},
    {"name": "int64", "datatype": "INT64", "shape": [-1], "optional": true},
    {"name": "fp16", "datatype": "FP16", "shape": [-1], "optional": true},
    {"name": "fp32", "datatype": "FP32", "shape": [-1], "optional": true},
    {"name": "fp64", "datatype": "FP64", "shape": [-1], "optional": true},
    {"name": "bf16", "datatype": "BF16", "shape": [-1], "optional": true},
    {"name": "bytes", "datatype": "BYTES", "shape": [-1], "optional": true},
    {"name": "deep", "datatype": "FP32", "shape": [-1, -1, -1, -1], "optional": true},
    {"name": "scalar", "datatype": "FP64", "shape": [], "optional": true}],
  "outputs": [
    {"name": "bool", "datatype": "BOOL", "shape": [-1]},
    {"name": "uint8", "datatype": "UINT8", "shape": [-1]},
    {"name": "uint16", "datatype": "UINT16", "shape": [-1]},
    {"name": "uint32", "datatype": "UINT32", "shape": [-1]},
    {"name": "uint64", "datatype": "UINT64", "shape": [-1]},
    {"name": "int8", "datatype": "INT8", "shape": [-1]},
    {"name": "int16", "datatype": "INT16", "shape": [-1]},
    {"name": "int32", "datatype": "INT32", "shape": [-1]},
    {"name": "int64", "datatype": "INT64", "shape": [-1]},
    {"name": "fp16", "datatype": "FP16", "shape": [-1]},
    {"name": "fp32", "datatype": "FP32", "shape": [-1]},
    {"name": "fp64", "datatype": "FP64", "shape": [-1]},
    {"name": "bf16", "datatype": "BF16", "shape": [-1]},
    {"name": "bytes", "datatype": "BYTES", "shape": [-1]},
    {"name": "deep", "datatype": "FP32", "shape": [-1, -1, -1, -1]},
    {"name": "scalar", "datatype": "FP64", "shape": []}],
  "parameters": [{"name": "do", "description": "what to do"}]}`

func conform(inputs step.List) (step.List, error) {
	what, _ := step.Parameter("do")
	switch what {
	case "echo":
		return inputs, nil
	case "reverse":
		slices.Reverse(inputs)
		return inputs, nil
	case "fail":
		text, err := firstText(inputs)
		if err != nil {
			return nil, err
		}
		return nil, errors.New(string(text))
	case "type":
		_, err := step.Input[int32](inputs, "fp32")
		return nil, err
	case "parameter":
		return parameters(inputs)
	case "log":
		return writeLog(inputs)
	case "infer":
		return infer(inputs)
	case "infer_twice":
		answer, err := infer(inputs)
		if err != nil {
			return nil, err
		}
		return infer(answer)
	case "infer_error":
		_, err := infer(inputs)
		if err == nil {
			return nil, errors.New("the model answered")
		}
		return step.List{step.OfBytes("bytes", []string{err.Error()})}, nil
	case "emit":
		err := step.Emit(inputs)
		if err == nil {
			return nil, errors.New("the response was sent")
		}
		return step.List{step.OfBytes("bytes", []string{err.Error()})}, nil
	case "softmax":
		return softmax(inputs)
	case "decode":
		text, err := firstText(inputs)
		if err == nil {
			_, _, err = step.DecodeImage(text, 3)
		}
		if err != nil {
			return nil, errors.New("decode: " + err.Error())
		}
		return nil, nil
	}
	return nil, errors.New("do " + strconv.Quote(what) + " is unknown")
}

func firstText(inputs step.List) ([]byte, error) {
	_, texts, err := step.InputBytes(inputs, "bytes")
	if err == nil && len(texts) == 0 {
		err = errors.New("input \"bytes\" is empty")
	}
	if err != nil {
		return nil, err
	}
	return texts[0], nil
}

func parameters(inputs step.List) (step.List, error) {
	_, names, err := step.InputBytes(inputs, "bytes")
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, name := range names {
		text, ok := step.Parameter(string(name))
		if !ok {
			text = "(none)"
		}
		texts = append(texts, text)
	}
	return step.List{step.OfBytes("bytes", texts)}, nil
}

func writeLog(inputs step.List) (step.List, error) {
	_, lines, err := step.InputBytes(inputs, "bytes")
	for i, line := range lines {
		step.Log(step.Level(i%4), string(line))
	}
	return nil, err
}

func infer(inputs step.List) (step.List, error) {
	model, _ := step.Parameter("model")
	return step.Infer(model, inputs)
}

func softmax(inputs step.List) (step.List, error) {
	x, err := step.Input[float32](inputs, "fp32")
	if err != nil {
		return nil, err
	}
	y := make([]float32, len(x.Values))
	if err := step.Softmax(x.Values, y, len(y)); err != nil {
		return nil, err
	}
	return step.List{step.Of("fp32", y, x.Shape...)}, nil
}

//go:wasmexport edgewise_process
func process(inputs uint32) uint32 { return step.Run(inputs, conform) }

//go:wasmexport edgewise_describe
func describe() uint32 { return step.Describe(description) }

func main() {}
