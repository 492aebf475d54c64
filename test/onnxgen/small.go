package onnxgen

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/edgewise-ai/edgewise"
)

// AddSub makes sum = a + b and diff = a - b, all FP32 [batch,16].
func AddSub() *Model {
	dims := Batch(16)
	return &Model{Graph: Graph{
		Name: "addsub",
		Nodes: []Node{
			{Op: "Add", In: []string{"a", "b"}, Out: []string{"sum"}},
			{Op: "Sub", In: []string{"a", "b"}, Out: []string{"diff"}},
		},
		Inputs:  []Value{{Name: "a", Type: Float, Dims: dims}, {Name: "b", Type: Float, Dims: dims}},
		Outputs: []Value{{Name: "sum", Type: Float, Dims: dims}, {Name: "diff", Type: Float, Dims: dims}},
	}}
}

// Identity makes y = x of one type and shape.
func Identity(t edgewise.DataType, dims ...Dim) *Model {
	return &Model{
		Graph: Graph{
			Name:    "identity",
			Nodes:   []Node{{Op: "Identity", In: []string{"x"}, Out: []string{"y"}}},
			Inputs:  []Value{{Name: "x", Type: TypeOf(t), Dims: dims}},
			Outputs: []Value{{Name: "y", Type: TypeOf(t), Dims: dims}},
		},
	}
}

// Scalar makes y = 2x of an FP32 without dimensions.
func Scalar() *Model {
	return &Model{Graph: Graph{
		Name:         "scalar",
		Nodes:        []Node{{Op: "Mul", In: []string{"x", "two"}, Out: []string{"y"}}},
		Initializers: []Tensor{Floats("two", nil, 2)},
		Inputs:       []Value{{Name: "x", Type: Float}},
		Outputs:      []Value{{Name: "y", Type: Float}},
	}}
}

// OptionalInput makes y = x + bias, FP32 [batch,4], where a request may leave bias [4] out: then it is 1, 2, 3, 4.
func OptionalInput() *Model {
	return &Model{Graph: Graph{
		Name:         "optional",
		Nodes:        []Node{{Op: "Add", In: []string{"x", "bias"}, Out: []string{"y"}}},
		Initializers: []Tensor{Floats("bias", []int64{4}, 1, 2, 3, 4)},
		Inputs:       []Value{{Name: "x", Type: Float, Dims: Batch(4)}, {Name: "bias", Type: Float, Dims: Dims(4)}},
		Outputs:      []Value{{Name: "y", Type: Float, Dims: Batch(4)}},
	}}
}

// externalAlign is where the second tensor of External begins: external data is usually aligned to pages.
const externalAlign = 4096

// External makes y = xW + b, x FP32 [batch,4], y FP32 [batch,2], whose W and b stand in the file "weights.bin":
// W is all 1 and b is 10, 20.
func External() *Model {
	w := Floats("W", []int64{4, 2}, 1, 1, 1, 1, 1, 1, 1, 1)
	b := Floats("b", []int64{2}, 10, 20)
	file := make([]byte, externalAlign, externalAlign+len(b.Data))
	copy(file, w.Data)
	file = append(file, b.Data...)
	return &Model{
		Graph: Graph{
			Name:         "external",
			Nodes:        []Node{{Op: "Gemm", In: []string{"x", "W", "b"}, Out: []string{"y"}}},
			Initializers: []Tensor{w.In("weights.bin", 0), b.In("weights.bin", externalAlign)},
			Inputs:       []Value{{Name: "x", Type: Float, Dims: Batch(4)}},
			Outputs:      []Value{{Name: "y", Type: Float, Dims: Batch(2)}},
		},
		Files: map[string][]byte{"weights.bin": file},
	}
}

// weightsSide is the width of the matrices of Weights: 4 MiB each.
const weightsSide = 1024

// Weights makes a model of n bytes of FP32 weights, rounded up to 4 KiB and at least that: a chain of matrix products
// and additions, x and y FP32 [batch,1024]. Below 2 GiB; the memory it takes here does not grow with n.
func Weights(n int64, seed uint64) *Model {
	const row = weightsSide * 4
	rng := rand.New(rand.NewPCG(seed, 0))
	block := make([]byte, 0, weightsSide*row)
	for len(block) < cap(block) {
		block = binary.LittleEndian.AppendUint32(block, math.Float32bits((rng.Float32()*2-1)/32))
	}
	g := Graph{Name: "weights"}
	x, rows := "x", max(1, (n+row-1)/row)
	for rows > 0 {
		op, t := "Add", Tensor{Type: Float, Dims: []int64{weightsSide}, Data: block[:row]}
		if rows >= weightsSide {
			op, t = "MatMul", Tensor{Type: Float, Dims: []int64{weightsSide, weightsSide}, Data: block}
		}
		rows -= int64(len(t.Data)) / row
		t.Name = name("w", len(g.Nodes))
		out := name("t", len(g.Nodes))
		if rows == 0 {
			out = "y"
		}
		g.Nodes = append(g.Nodes, Node{Op: op, In: []string{x, t.Name}, Out: []string{out}})
		g.Initializers = append(g.Initializers, t)
		x = out
	}
	g.Inputs = []Value{{Name: "x", Type: Float, Dims: Batch(weightsSide)}}
	g.Outputs = []Value{{Name: "y", Type: Float, Dims: Batch(weightsSide)}}
	return &Model{Graph: g}
}
