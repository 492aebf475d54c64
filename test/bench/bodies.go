package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/edgewise-ai/edgewise"
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

// pixels returns a tensor of pixels: smooth, with some noise, as photographs are.
func pixels() edgewise.Tensor {
	const side = 224
	rough := noise(edgewise.Shape{side, side, 3}).Data
	data := make([]byte, side*side*3)
	for i := range data {
		data[i] = byte(i/(3*side)/2 + i/3%side/4 + int(rough[4*i+1]&15))
	}
	return edgewise.Tensor{Name: "pixels", Type: edgewise.Uint8, Shape: edgewise.Shape{1, side, side, 3}, Data: data}
}
