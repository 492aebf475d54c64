package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// The names of the one input and the one output of the models that are measured.
const (
	inputName  = "input"
	outputName = "output"
)

// noise is a random FP32 tensor.
func noise(shape edgewise.Shape) edgewise.Tensor {
	r := rand.New(rand.NewPCG(1, 2))
	n, _ := shape.Elements()
	data := make([]byte, 0, 4*n)
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(r.Float32()))
	}
	return edgewise.Tensor{Name: inputName, Type: edgewise.FP32, Shape: shape, Data: data}
}

// clientsOf returns clients of a model in a box.
func clientsOf(b *box, model string, in edgewise.Tensor, form kserve.Form, core int) (*callers, error) {
	body, jsonSize, err := kserve.AppendInferRequest(nil, &edgewise.Request{Inputs: []edgewise.Tensor{in}}, form, form)
	if err != nil {
		return nil, err
	}
	headers := "Content-Type: application/json\r\n"
	if form == kserve.Binary {
		headers = fmt.Sprintf("Content-Type: application/octet-stream\r\n%s: %d\r\n", kserve.HeaderLength, jsonSize)
	}
	return &callers{address: b.address, path: "/v2/models/" + model + "/infer", headers: headers, body: body, core: core}, nil
}

// push stores a model file in a box, with a configuration when it is not empty, and waits until it serves.
func push(b *box, name string, model []byte, config string) error {
	return pushAs(b, name, "model.onnx", model, config)
}

// pushAs is push for a model whose file has another name.
func pushAs(b *box, name, file string, model []byte, config string) error {
	files := []struct{ path, content string }{{file, string(model)}}
	if config != "" {
		files = append(files, struct{ path, content string }{"config.pbtxt", config})
	}
	size, next := int64(0), 0
	for _, f := range files {
		size += int64(len(f.content))
	}
	up := edgewise.Upload{Model: name, Size: size, Next: func() (string, int64, io.Reader, error) {
		if next == len(files) {
			return "", 0, nil, io.EOF
		}
		f := files[next]
		next++
		return f.path, int64(len(f.content)), strings.NewReader(f.content), nil
	}}
	_, err := b.client.Push(context.Background(), up, true, nil)
	return err
}
