package onnxgen

import "github.com/edgewise-ai/edgewise"

// Sequence makes a model with a state: y = x + state, and next, which is the next state, is the same, all FP32
// [batch,2]. started and id say what the inputs START, BOOL [batch,1], and CORRID, INT64 [batch,1], were.
func Sequence() *Model {
	row, one := Batch(2), Batch(1)
	return &Model{Graph: Graph{
		Name: "sequence",
		Nodes: []Node{
			{Op: "Add", In: []string{"x", "state"}, Out: []string{"y"}},
			{Op: "Identity", In: []string{"y"}, Out: []string{"next"}},
			{Op: "Identity", In: []string{"START"}, Out: []string{"started"}},
			{Op: "Identity", In: []string{"CORRID"}, Out: []string{"id"}},
		},
		Inputs: []Value{
			{Name: "x", Type: Float, Dims: row},
			{Name: "state", Type: Float, Dims: row},
			{Name: "START", Type: TypeOf(edgewise.Bool), Dims: one},
			{Name: "CORRID", Type: TypeOf(edgewise.Int64), Dims: one},
		},
		Outputs: []Value{
			{Name: "y", Type: Float, Dims: row},
			{Name: "next", Type: Float, Dims: row},
			{Name: "started", Type: TypeOf(edgewise.Bool), Dims: one},
			{Name: "id", Type: TypeOf(edgewise.Int64), Dims: one},
		},
	}}
}
