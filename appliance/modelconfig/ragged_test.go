package modelconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

const raggedConfig = `
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [-1, 2] allow_ragged_batch: true }
output [ { name: "y" data_type: TYPE_FP32 dims: [-1] }, { name: "z" data_type: TYPE_INT32 dims: [1] } ]
batch_input [
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ends" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_ITEM_SHAPE target_name: "shapes" data_type: TYPE_INT32 source_input: "x" }
]
batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "y" source_input: "x" }
`

var raggedSignature = &edgewise.Inspection{
	Inputs: []edgewise.TensorInfo{
		{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{-1}},
		{Name: "ends", Type: edgewise.Int32, Shape: edgewise.Shape{-1}},
		{Name: "shapes", Type: edgewise.Int32, Shape: edgewise.Shape{-1, 2}},
	},
	Outputs: []edgewise.TensorInfo{
		{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{-1}},
		{Name: "z", Type: edgewise.Int32, Shape: edgewise.Shape{-1}},
	},
}

func TestRaggedConfiguration(t *testing.T) {
	m := complete(t, raggedConfig, raggedSignature)
	if err := Validate(m, validFiles, raggedSignature, testDefaults); err != nil {
		t.Error(err)
	}
	if m.Input[0].Reshape != nil || m.Output[0].Reshape != nil || m.Output[1].Reshape == nil {
		t.Errorf("completed to %+v %+v", m.Input, m.Output)
	}
}

func TestRaggedProblems(t *testing.T) {
	const all = "allow_ragged_batch, batch_input and batch_output"
	tests := []struct{ name, change, to, want string }{
		{"no batching", "max_batch_size: 4", "max_batch_size: 0", all + " need max_batch_size above 0"},
		{
			"slots", "max_batch_size: 4", "max_batch_size: 4 sequence_batching {}",
			all + ": sequence_batching with the strategy direct excludes them",
		},
		{
			"padding", "max_batch_size: 4", `max_batch_size: 4 parameters { key: "padding_value" value { string_value: "0" } }`,
			"parameters: padding_value: padding is excluded by " + all,
		},
		{
			"optional", "allow_ragged_batch: true", "allow_ragged_batch: true optional: true",
			`input "x": optional is excluded by allow_ragged_batch`,
		},
		{
			"reshape", "allow_ragged_batch: true", "allow_ragged_batch: true reshape { shape: [2, -1] }",
			`input "x": reshape is excluded by allow_ragged_batch: the model sees one dimension`,
		},
		{
			"another rank", `name: "x" data_type`, `name: "shapes" data_type`,
			`input "shapes": the model wants shape [-1,2], and what is made from a batch has shape [-1]`,
		},
		{
			"another type", `name: "x" data_type: TYPE_FP32`, `name: "x" data_type: TYPE_FP16`,
			`input "x": data_type: the model wants TYPE_FP32, got TYPE_FP16`,
		},
		{"no target", `target_name: "ends"`, "", "batch_input[0]: target_name is empty: want at least one"},
		{"no source", `TYPE_INT32 source_input: "x"`, "TYPE_INT32", "batch_input[0]: source_input: want exactly one, got 0"},
		{
			"two sources", `TYPE_INT32 source_input: "x"`, `TYPE_INT32 source_input: ["x", "x"]`,
			"batch_input[0]: source_input: want exactly one, got 2",
		},
		{
			"unknown source", `TYPE_INT32 source_input: "x"`, `TYPE_INT32 source_input: "w"`,
			`batch_input[0]: source_input "w" is not an input`,
		},
		{
			"type of counts", `target_name: "ends" data_type: TYPE_INT32`, `target_name: "ends" data_type: TYPE_INT64`,
			"batch_input[0]: data_type: want TYPE_INT32 or TYPE_FP32, got TYPE_INT64",
		},
		{
			"unknown target", `target_name: "ends"`, `target_name: "end"`,
			`batch_input[0]: target_name "end": "end" is not in the model (it has: x, ends, shapes)`,
		},
		{
			"a target twice", `target_name: "ends"`, `target_name: ["ends", "ends"]`,
			`batch_input[0]: target_name "ends" is declared twice`,
		},
		{
			"kind of another rank", "kind: BATCH_ITEM_SHAPE", "kind: BATCH_ITEM_SHAPE_FLATTEN",
			`batch_input[1]: target_name "shapes": the model wants shape [-1,2], and what is made from a batch has shape [-1]`,
		},
		{"unknown output", `target_name: "y"`, `target_name: "w"`, `batch_output[0]: "w" is not an output`},
		{"an output twice", `target_name: "y"`, `target_name: ["y", "y"]`, `batch_output[0]: output "y" is scattered twice`},
		{
			"output with reshape", `{ name: "y" data_type: TYPE_FP32 dims: [-1] }`,
			`{ name: "y" data_type: TYPE_FP32 dims: [-1, 1] reshape { shape: [-1] } }`,
			`batch_output[0]: output "y": reshape is excluded by it`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(raggedConfig, tt.change) {
				t.Fatalf("%q is not in the configuration", tt.change)
			}
			m := complete(t, strings.Replace(raggedConfig, tt.change, tt.to, 1), raggedSignature)
			err := Validate(m, validFiles, raggedSignature, testDefaults)
			if !strings.Contains(fmt.Sprint(err), `model "cat": `+tt.want) || edgewise.KindOf(err) != edgewise.Invalid {
				t.Errorf("got:\n%v\nwant:\n%s", err, tt.want)
			}
		})
	}
}
