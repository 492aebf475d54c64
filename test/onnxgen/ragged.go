package onnxgen

import "github.com/edgewise-ai/edgewise"

// Ragged makes a model that is told everything about its batch. x, FP32 [total], are the elements of all requests;
// double, FP32 [total], is twice that. The others say what the inputs made from the batch were, a row for each request
// of one element of the batch: counts, FP32; sums, INT32; begins, INT32, without the last one of the list that begins
// with 0; shapes, INT32 [batch,1]; flat, INT32, the same; largest, INT64, how long most was.
func Ragged() *Model {
	total, each := []Dim{{Name: "total"}}, []Dim{{Name: "batch"}}
	integer := TypeOf(edgewise.Int32)
	same := func(from, to string) Node { return Node{Op: "Identity", In: []string{from}, Out: []string{to}} }
	return &Model{Graph: Graph{
		Name: "ragged",
		Nodes: []Node{
			{Op: "Add", In: []string{"x", "x"}, Out: []string{"double"}},
			same("count", "counts"), same("sum", "sums"), same("shape", "shapes"), same("flatshape", "flat"),
			{Op: "Slice", In: []string{"begin", "first", "last"}, Out: []string{"begins"}},
			{Op: "Shape", In: []string{"most"}, Out: []string{"long"}},
			{Op: "Shape", In: []string{"count"}, Out: []string{"requests"}},
			{Op: "Expand", In: []string{"long", "requests"}, Out: []string{"largest"}},
		},
		Initializers: []Tensor{Ints64("first", []int64{1}, 0), Ints64("last", []int64{1}, -1)},
		Inputs: []Value{
			{Name: "x", Type: Float, Dims: total},
			{Name: "count", Type: Float, Dims: each},
			{Name: "sum", Type: integer, Dims: each},
			{Name: "begin", Type: integer, Dims: []Dim{{Name: "ends"}}},
			{Name: "most", Type: Float, Dims: []Dim{{Name: "most"}}},
			{Name: "shape", Type: integer, Dims: []Dim{{Name: "batch"}, {Name: "rank"}}},
			{Name: "flatshape", Type: integer, Dims: each},
		},
		Outputs: []Value{
			{Name: "double", Type: Float, Dims: total},
			{Name: "counts", Type: Float, Dims: each},
			{Name: "sums", Type: integer, Dims: each},
			{Name: "begins", Type: integer, Dims: each},
			{Name: "shapes", Type: integer, Dims: []Dim{{Name: "batch"}, {Name: "rank"}}},
			{Name: "flat", Type: integer, Dims: each},
			{Name: "largest", Type: TypeOf(edgewise.Int64), Dims: each},
		},
	}}
}
