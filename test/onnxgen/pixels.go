package onnxgen

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise/picture"
)

// Half turns a model of FP32 into one of FP16: its weights, its inputs and its outputs. It returns the model.
func (m *Model) Half() *Model {
	for i := range m.Graph.Initializers {
		t := &m.Graph.Initializers[i]
		if t.Type != Float {
			continue
		}
		half := make([]byte, 0, len(t.Data)/2)
		for at := 0; at < len(t.Data); at += 4 {
			half = binary.LittleEndian.AppendUint16(half, picture.Half(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))))
		}
		t.Type, t.Data = Float16, half
	}
	for _, list := range [][]Value{m.Graph.Inputs, m.Graph.Outputs} {
		for i := range list {
			if list[i].Type == Float {
				list[i].Type = Float16
			}
		}
	}
	return m
}

// FromPixels puts in front of a model whose one input has the shape [batch,3,height,width] what makes that of "pixels",
// UINT8 [batch,height,width,3]: x/127.5 - 1, as planes. It returns the model.
func (m *Model) FromPixels() *Model {
	in := m.Graph.Inputs[0]
	constant := func(name string, value float32) Tensor {
		if in.Type == Float16 {
			return Tensor{Name: name, Type: Float16, Data: binary.LittleEndian.AppendUint16(nil, picture.Half(value))}
		}
		return Floats(name, nil, value)
	}
	m.Graph.Initializers = append(m.Graph.Initializers, constant("pixel_scale", 1/127.5), constant("pixel_shift", 1))
	m.Graph.Nodes = append([]Node{
		{Op: "Transpose", In: []string{"pixels"}, Out: []string{"pixel_planes"}, Attributes: []Attribute{IntsAttribute("perm", 0, 3, 1, 2)}},
		{Op: "Cast", In: []string{"pixel_planes"}, Out: []string{"pixel_values"}, Attributes: []Attribute{IntAttribute("to", int64(in.Type))}},
		{Op: "Mul", In: []string{"pixel_values", "pixel_scale"}, Out: []string{"pixel_scaled"}},
		{Op: "Sub", In: []string{"pixel_scaled", "pixel_shift"}, Out: []string{in.Name}},
	}, m.Graph.Nodes...)
	m.Graph.Inputs[0] = Value{Name: "pixels", Type: Uint8, Dims: []Dim{in.Dims[0], in.Dims[2], in.Dims[3], in.Dims[1]}}
	return m
}

// Dot makes a classifier without convolutions of pictures of side times side pixels: input FP32 [batch,3,side,side],
// output FP32 [batch,10].
func Dot(side int64, seed uint64) *Model {
	n := newNetwork("dot", seed)
	x := n.op("Flatten", []string{"input"}, IntAttribute("axis", 1))
	n.dense(x, 3*side*side, 10, 0.01, "output")
	n.graph.Inputs = []Value{{Name: "input", Type: Float, Dims: Batch(3, side, side)}}
	n.graph.Outputs = []Value{{Name: "output", Type: Float, Dims: Batch(10)}}
	return &Model{Graph: n.graph}
}

// Twice makes y = 2x, FP32 [batch,size]: a model that is nearly all copying.
func Twice(size int64) *Model {
	return &Model{Graph: Graph{
		Name: "twice", Nodes: []Node{{Op: "Mul", In: []string{"input", "two"}, Out: []string{"output"}}},
		Initializers: []Tensor{Floats("two", nil, 2)},
		Inputs:       []Value{{Name: "input", Type: Float, Dims: Batch(size)}},
		Outputs:      []Value{{Name: "output", Type: Float, Dims: Batch(size)}},
	}}
}
