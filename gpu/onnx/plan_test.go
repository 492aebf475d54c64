package onnx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestBuckets(t *testing.T) {
	with := func(most int32, parameter string, preferred ...int32) *edgewise.Model {
		return &edgewise.Model{
			Name: "m", MaxBatchSize: most,
			DynamicBatching: &edgewise.DynamicBatching{PreferredBatchSize: preferred},
			Parameters:      map[string]edgewise.ModelParam{"gpu_batch_buckets": {StringValue: parameter}},
		}
	}
	many := make([]string, MaxBuckets+1)
	for i := range many {
		many[i] = fmt.Sprint(i + 1)
	}
	for _, test := range []struct {
		name  string
		model *edgewise.Model
		want  string
	}{
		{"powers of two", with(20, ""), "[1 2 4 8 16 20]"},
		{"preferred sizes", with(16, "", 6, 12), "[1 2 4 6 8 12 16]"},
		{"chosen", with(16, "4, 8"), "[4 8 16]"},
		{"off", with(16, "off"), "[]"},
		{"not batched", with(0, ""), "[1]"},
		{"too large", with(16, "32"), "no batch size from 1 to max_batch_size 16"},
		{"no number", with(16, "x"), "no batch size"},
		{"too many", with(64, strings.Join(many, ",")), "at most 32 are allowed"},
	} {
		list, err := buckets(test.model)
		if got := fmt.Sprint(list); err == nil && got != test.want || err != nil &&
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", test.name, list, err)
		}
	}
}

func TestAModelWhoseOutputIsAnInputHasNoRing(t *testing.T) {
	tensor := func(name string) edgewise.TensorInfo {
		return edgewise.TensorInfo{Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{-1, 3}}
	}
	file := &edgewise.Inspection{Inputs: []edgewise.TensorInfo{tensor("x")}, Outputs: []edgewise.TensorInfo{tensor("y")}}
	m := &edgewise.Model{MaxBatchSize: 4}
	if _, _, ok := plans(m, file, 4, 3); !ok {
		t.Error("a plain model has none")
	}
	file.Outputs = append(file.Outputs, tensor("x"))
	if _, _, ok := plans(m, file, 4, 3); ok {
		t.Error("one whose output the runtime leaves where the input is has one")
	}
}
