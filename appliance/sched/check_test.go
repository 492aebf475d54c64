package sched

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func twoInputs(maxBatch int32) *edgewise.Model {
	return &edgewise.Model{
		Name: "M", MaxBatchSize: maxBatch,
		Input: []edgewise.ModelInput{
			{Name: "A", DataType: edgewise.FP32, Dims: edgewise.Shape{16}},
			{Name: "B", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}},
			{Name: "C", DataType: edgewise.Int8, Dims: edgewise.Shape{1}, Optional: true},
		},
		Output: []edgewise.ModelOutput{{Name: "Y", DataType: edgewise.FP32, Dims: edgewise.Shape{1}}},
	}
}

func tensor(name string, t edgewise.DataType, shape edgewise.Shape, data []byte) edgewise.Tensor {
	return edgewise.Tensor{Name: name, Type: t, Shape: shape, Data: data}
}

func goodA() edgewise.Tensor {
	return tensor("A", edgewise.FP32, edgewise.Shape{1, 16}, make([]byte, 64))
}

func goodB() edgewise.Tensor {
	return tensor(
		"B", edgewise.Bytes, edgewise.Shape{1, 2}, edgewise.AppendElement(edgewise.AppendElement(nil, "a\x00b"), ""),
	)
}

func TestRequestsThatContradictTheModel(t *testing.T) {
	unframed := goodB()
	unframed.Data = unframed.Data[:5]
	short := goodB()
	short.Data = short.Data[:7]
	cut := goodB()
	cut.Data = append([]byte{}, cut.Data[:9]...)
	tests := []struct {
		name    string
		inputs  []edgewise.Tensor
		outputs []string
		want    string
	}{
		{
			"too few",
			[]edgewise.Tensor{goodA()},
			nil,
			"expected number of inputs between 2 and 3 but got 1 inputs for model 'M'. Got input(s) ['A'], but " +
				"missing required input(s) ['B']. Please provide all required input(s).",
		},
		{
			"none", nil, nil,
			"expected number of inputs between 2 and 3 but got 0 inputs for model 'M'. Got input(s) [], but " +
				"missing required input(s) ['A','B']. Please provide all required input(s).",
		},
		{
			"optional instead of required",
			[]edgewise.Tensor{goodA(), tensor("C", edgewise.Int8, edgewise.Shape{1, 1}, []byte{1})},
			nil,
			"expected number of inputs between 2 and 3 but got 2 inputs for model 'M'. Got input(s) ['A','C'], but " +
				"missing required input(s) ['B']. Please provide all required input(s).",
		},
		{
			"too many",
			[]edgewise.Tensor{goodA(), goodB(), goodA(), goodB()},
			nil,
			"expected number of inputs between 2 and 3 but got 4 inputs for model 'M'. Got input(s) " +
				"['A','B','A','B'], but the model has only ['A','B','C'].",
		},
		{"unknown", []edgewise.Tensor{
			goodA(), tensor("X", edgewise.FP32, nil, nil),
		}, nil, "unexpected inference input 'X' for model 'M'"},
		{"twice", []edgewise.Tensor{goodA(), goodA()}, nil, "input 'A' already exists in request"},
		{
			"unknown output",
			[]edgewise.Tensor{goodA(), goodB()},
			[]string{"Y", "Z"},
			"unexpected inference output 'Z' for model 'M'",
		},
		{"no batch dimension", []edgewise.Tensor{
			goodA(), tensor("B", edgewise.Bytes, edgewise.Shape{}, nil),
		}, nil, "input 'B' has no shape but model requires batch dimension for 'M'"},
		{"different batches", []edgewise.Tensor{
			goodA(), tensor("B", edgewise.Bytes, edgewise.Shape{2, 1}, nil),
		}, nil, "input 'B' batch size does not match other inputs for 'M'"},
		{"batch too large", []edgewise.Tensor{
			tensor("A", edgewise.FP32, edgewise.Shape{9, 16}, nil),
			tensor("B", edgewise.Bytes, edgewise.Shape{9, 1}, nil),
		}, nil, "inference request batch-size must be <= 8 for 'M'"},
		{"negative batch", []edgewise.Tensor{
			tensor("A", edgewise.FP32, edgewise.Shape{-1, 16}, nil),
			tensor("B", edgewise.Bytes, edgewise.Shape{-1, 1}, nil),
		}, nil, "input 'A' of model 'M': shape [-1,16] has a negative size"},
		{"data type", []edgewise.Tensor{
			tensor("A", edgewise.Int32, edgewise.Shape{1, 16}, make([]byte, 64)), goodB(),
		}, nil, "inference input 'A' data-type is 'INT32', but model 'M' expects 'FP32'"},
		{
			"shape",
			[]edgewise.Tensor{tensor("A", edgewise.FP32, edgewise.Shape{1, 15}, make([]byte, 60)), goodB()},
			nil,
			"unexpected shape for input 'A' for model 'M'. Expected [-1,16], got [1,15]. NOTE: Setting a non-zero " +
				"max_batch_size",
		},
		{"rank", []edgewise.Tensor{
			tensor("A", edgewise.FP32, edgewise.Shape{1, 16, 1}, make([]byte, 64)), goodB(),
		}, nil, "unexpected shape for input 'A' for model 'M'. Expected [-1,16], got [1,16,1]. NOTE"},
		{"negative size", []edgewise.Tensor{
			goodA(), tensor("B", edgewise.Bytes, edgewise.Shape{1, -1}, nil),
		}, nil, "input 'B' of model 'M': shape [1,-1] has a negative size"},
		{"too many elements", []edgewise.Tensor{
			goodA(), tensor("B", edgewise.Bytes, edgewise.Shape{1, 1 << 62, 4}, nil),
		}, nil, "input 'B' of model 'M': shape [1,4611686018427387904,4] has a negative size, too many elements"},
		{"too few bytes", []edgewise.Tensor{
			tensor("A", edgewise.FP32, edgewise.Shape{1, 16}, make([]byte, 60)), goodB(),
		}, nil, "input byte size mismatch for input 'A' for model 'M'. Expected 64, got 60"},
		{
			"cut length",
			[]edgewise.Tensor{goodA(), cut},
			nil,
			"incomplete string length indicator for inference input 'B' for model 'M', expecting 4 bytes but only " +
				"2 bytes available. Please",
		},
		{
			"cut string",
			[]edgewise.Tensor{goodA(), unframed},
			nil,
			"incomplete string data for inference input 'B' for model 'M', expecting string of length 3 but only 1 " +
				"bytes available",
		},
		{
			"too few strings",
			[]edgewise.Tensor{goodA(), short},
			nil,
			"expected 2 string elements for inference input 'B' for model 'M', got 1",
		},
		{
			"two faults, of which the last is told",
			[]edgewise.Tensor{tensor("A", edgewise.FP32, edgewise.Shape{1, 16}, make([]byte, 60)), short},
			nil,
			"expected 2 string elements for inference input 'B' for model 'M', got 1",
		},
	}
	c := NewChecker(twoInputs(8))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := c.check(&edgewise.Request{Inputs: test.inputs, Outputs: test.outputs}, newJob())
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || edgewise.KindOf(err) != edgewise.Invalid {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestGoodRequestsPass(t *testing.T) {
	c := NewChecker(twoInputs(8))
	j := newJob()
	err := c.check(&edgewise.Request{Inputs: []edgewise.Tensor{goodB(), goodA()}}, j)
	if err != nil || j.batch != 1 || len(j.want) != 1 || j.want[0] != "Y" || j.inputs[0].Name != "A" ||
		j.inputs[1].Name != "B" {
		t.Errorf("job %+v, error %v", j, err)
	}
}

// TestShapesOfOneNumber leaves out the dimension of size 1 that stands for a tensor without any.
func TestShapesOfOneNumber(t *testing.T) {
	for _, test := range []struct {
		name         string
		maxBatch     int32
		reshape      edgewise.Shape // nil: none
		in, accepted edgewise.Shape // nil: refused
	}{
		{"as declared", 0, edgewise.Shape{}, edgewise.Shape{1}, edgewise.Shape{}},
		{"as in the model", 0, edgewise.Shape{}, edgewise.Shape{}, edgewise.Shape{}},
		{"two numbers", 0, edgewise.Shape{}, edgewise.Shape{2}, nil},
		{"too many dimensions", 0, edgewise.Shape{}, edgewise.Shape{1, 1}, nil},
		{"one for each row, as declared", 8, edgewise.Shape{}, edgewise.Shape{3, 1}, edgewise.Shape{3}},
		{"one for each row, as in the model", 8, edgewise.Shape{}, edgewise.Shape{3}, edgewise.Shape{3}},
		{"no row", 8, edgewise.Shape{}, edgewise.Shape{0}, edgewise.Shape{0}},
		{"no batch dimension", 8, edgewise.Shape{}, edgewise.Shape{}, nil},
		{"a vector of one number", 0, nil, edgewise.Shape{}, nil},
		{"another reshape", 0, edgewise.Shape{1, 1}, edgewise.Shape{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := edgewise.ModelInput{Name: "x", DataType: edgewise.Uint8, Dims: edgewise.Shape{1}}
			if test.reshape != nil {
				in.Reshape = &edgewise.Reshape{Shape: test.reshape}
			}
			n, _ := test.in.Elements()
			req := &edgewise.Request{Inputs: []edgewise.Tensor{tensor("x", edgewise.Uint8, test.in, make([]byte, n))}}
			j := newJob()
			err := NewChecker(
				&edgewise.Model{Name: "M", MaxBatchSize: test.maxBatch, Input: []edgewise.ModelInput{in}},
			).check(req, j)
			if (err == nil) != (test.accepted != nil) {
				t.Fatal(err)
			}
			if err == nil && !j.inputs[0].Shape.Equal(test.accepted) {
				t.Errorf("the model gets shape %v, want %v", j.inputs[0].Shape, test.accepted)
			}
		})
	}
}

// TestRequestsWithoutRows are taken, but by models whose rows belong to something.
func TestRequestsWithoutRows(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(m *edgewise.Model)
		want   string
	}{
		{"any model", func(*edgewise.Model) {}, ""},
		{
			"sequences", func(m *edgewise.Model) { m.SequenceBatching = &edgewise.SequenceBatching{} },
			"inference request batch-size must be >= 1 for 'M'",
		},
		{
			"ragged batches", func(m *edgewise.Model) { m.Input[0].AllowRaggedBatch = true },
			"inference request batch-size must be >= 1 for 'M'",
		},
		{"padding", func(m *edgewise.Model) {
			m.Parameters = map[string]edgewise.ModelParam{PaddingParameter: {StringValue: "0"}}
		}, "inference request batch-size must be >= 1 for 'M'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := twoInputs(8)
			test.change(m)
			in := []edgewise.Tensor{
				tensor("A", edgewise.FP32, edgewise.Shape{0, 16}, nil),
				tensor("B", edgewise.Bytes, edgewise.Shape{0, 1}, nil),
			}
			err := NewChecker(m).check(&edgewise.Request{Inputs: in}, newJob())
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestWrongOutputsOfABackendNeverReachAClient(t *testing.T) {
	tests := []struct {
		name string
		out  edgewise.Tensor
		want string
	}{
		{"unknown name", tensor(
			"Q", edgewise.FP32, edgewise.Shape{1, 1}, nil,
		), `model "M": the backend made output "Q" of type FP32, which the model does not declare`},
		{"other type", tensor(
			"Y", edgewise.Int8, edgewise.Shape{1, 1}, nil,
		), `model "M": the backend made output "Y" of type INT8, which the model does not declare`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := NewChecker(twoInputs(8)).finish(&edgewise.Result{Outputs: []edgewise.Tensor{test.out}})
			if err == nil || err.Error() != test.want || edgewise.KindOf(err) != edgewise.Internal {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestOutputsMayHaveOtherSizesThanDeclared(t *testing.T) {
	r := &edgewise.Result{Outputs: []edgewise.Tensor{tensor("Y", edgewise.FP32, edgewise.Shape{1, 2}, nil)}}
	if err := NewChecker(twoInputs(8)).finish(r); err != nil || !r.Outputs[0].Shape.Equal(edgewise.Shape{1, 2}) {
		t.Errorf("shape %v, %v", r.Outputs[0].Shape, err)
	}
}
