package onnxgen

import (
	"fmt"
	"math"
	"slices"
)

func name(prefix string, i int) string { return fmt.Sprintf("%s%d", prefix, i) }

// slowSide is the width of the square matrices of Slow.
const slowSide = 256

// Slow makes a model that computes for about gflops billion floating-point operations, whatever the batch: a Loop of
// matrix products. Input x and output y are FP32 [batch,16]; y = x, as what the products come to is
// taken times 0.
func Slow(gflops float64) *Model { return slow(gflops, "trips") }

// SlowOnZeros is Slow for inputs whose mean is 0, and at once done with others, such as those of the run with which a box
// verifies a version.
func SlowOnZeros(gflops float64) *Model {
	m := slow(gflops, "asked")
	asked := []Node{
		{Op: "Equal", In: []string{"mean", "zero"}, Out: []string{"zeros"}},
		{Op: "Cast", In: []string{"zeros"}, Out: []string{"once"}, Attributes: []Attribute{IntAttribute("to", int64(Int64))}},
		{Op: "Mul", In: []string{"once", "trips"}, Out: []string{"asked"}},
	}
	m.Graph.Nodes = slices.Insert(m.Graph.Nodes, 1, asked...)
	return m
}

// slow makes the model whose Loop does as many trips as the value of that name says.
func slow(gflops float64, tripCount string) *Model {
	const flopsPerTrip = 2 * slowSide * slowSide * slowSide
	trips := max(1, int64(math.Round(gflops*1e9/flopsPerTrip)))
	square := []int64{slowSide, slowSide}
	even := Floats("even", square, slices.Repeat([]float32{1.0 / slowSide}, slowSide*slowSide)...)
	body := Graph{
		Name: "body",
		Nodes: []Node{
			{Op: "Identity", In: []string{"again"}, Out: []string{"on"}},
			{Op: "MatMul", In: []string{"state", "even"}, Out: []string{"next"}},
		},
		Inputs: []Value{
			{Name: "trip", Type: Int64}, {Name: "again", Type: Bool}, {Name: "state", Type: Float, Dims: Dims(square...)},
		},
		Outputs: []Value{{Name: "on", Type: Bool}, {Name: "next", Type: Float, Dims: Dims(square...)}},
	}
	return &Model{Graph: Graph{
		Name: "slow",
		Nodes: []Node{
			{Op: "ReduceMean", In: []string{"x"}, Out: []string{"mean"}, Attributes: []Attribute{IntAttribute("keepdims", 0)}},
			{Op: "Expand", In: []string{"mean", "square"}, Out: []string{"start"}},
			{Op: "Loop", In: []string{tripCount, "", "start"}, Out: []string{"end"}, Attributes: []Attribute{GraphAttribute("body", body)}},
			{Op: "ReduceMean", In: []string{"end"}, Out: []string{"shift"}, Attributes: []Attribute{IntAttribute("keepdims", 0)}},
			{Op: "Mul", In: []string{"shift", "zero"}, Out: []string{"nothing"}},
			{Op: "Add", In: []string{"x", "nothing"}, Out: []string{"y"}},
		},
		Initializers: []Tensor{even, Ints64("square", []int64{2}, square...), Ints64("trips", nil, trips), Floats("zero", nil, 0)},
		Inputs:       []Value{{Name: "x", Type: Float, Dims: Batch(16)}},
		Outputs:      []Value{{Name: "y", Type: Float, Dims: Batch(16)}},
	}}
}

// Heavy makes a network that computes for about gflops billion floating-point operations for each row and answers its
// input: matrix products of which only the shape counts. A device that copies and computes nothing answers rightly. Input
// x is FP32 [batch,slowSide], output y FP32 [batch,slowSide,1].
func Heavy(gflops float64) *Model {
	square := []int64{slowSide, slowSide}
	products := max(1, int(math.Round(gflops*1e9/(2*slowSide*slowSide*slowSide))))
	nodes := []Node{
		{Op: "Reshape", In: []string{"x", "column"}, Out: []string{"c"}},
		{Op: "MatMul", In: []string{"c", "row"}, Out: []string{name("t", 0)}},
	}
	for i := range products {
		nodes = append(nodes, Node{Op: "MatMul", In: []string{name("t", i), "none"}, Out: []string{name("t", i+1)}})
	}
	return &Model{Graph: Graph{
		Name: "heavy",
		Nodes: append(
			nodes,
			Node{Op: "MatMul", In: []string{name("t", products), "last"}, Out: []string{"sums"}},
			Node{Op: "Shape", In: []string{"sums"}, Out: []string{"shape"}},
			Node{Op: "Reshape", In: []string{"x", "shape"}, Out: []string{"y"}},
		),
		Initializers: []Tensor{
			Ints64("column", []int64{3}, -1, slowSide, 1), Floats("row", []int64{1, slowSide}, make([]float32, slowSide)...),
			Floats("none", square, make([]float32, slowSide*slowSide)...), Floats("last", []int64{slowSide, 1}, make([]float32, slowSide)...),
		},
		Inputs:  []Value{{Name: "x", Type: Float, Dims: Batch(slowSide)}},
		Outputs: []Value{{Name: "y", Type: Float, Dims: Batch(slowSide, 1)}},
	}}
}
