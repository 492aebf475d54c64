package modelconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

const sequenceConfig = `
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [2] }
output { name: "y" data_type: TYPE_FP32 dims: [2] }
sequence_batching {
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } },
    { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
  ]
  state { input_name: "s" output_name: "t"
    data_type: TYPE_INT64 dims: [-1, 3] initial_state { name: "begin" data_type: TYPE_INT64 dims: [2, 3] data_file: "begin.bin" } }
}`

var (
	sequenceFiles     = []string{"config.pbtxt", "model.onnx", "initial_state/begin.bin"}
	sequenceSignature = &edgewise.Inspection{
		Inputs: []edgewise.TensorInfo{
			{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{-1, 2}},
			{Name: "START", Type: edgewise.FP32, Shape: edgewise.Shape{-1, 1}},
			{Name: "ID", Type: edgewise.Bytes, Shape: edgewise.Shape{-1, 1}},
			{Name: "s", Type: edgewise.Int64, Shape: edgewise.Shape{-1, -1, 3}},
		},
		Outputs: []edgewise.TensorInfo{
			{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{-1, 2}},
			{Name: "t", Type: edgewise.Int64, Shape: edgewise.Shape{-1, -1, 3}},
		},
	}
)

func TestSequenceConfigurationIsCompleted(t *testing.T) {
	for _, declared := range []string{
		sequenceConfig,
		sequenceConfig[strings.Index(sequenceConfig, "sequence_batching"):],
	} {
		m, err := Parse("config.pbtxt", []byte(declared))
		if err != nil {
			t.Fatal(err)
		}
		m, err = Complete(m, "cat", sequenceFiles, sequenceSignature, Defaults{Formats: testFormats, MaxBatchSize: 4, InstanceCount: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := Validate(m, sequenceFiles, sequenceSignature, testDefaults); err != nil {
			t.Error(err)
		}
		if len(m.Input) != 1 || len(m.Output) != 1 || m.MaxBatchSize != 4 || m.DynamicBatching != nil ||
			m.SequenceBatching.MaxSequenceIdle != 1_000_000 {
			t.Errorf("completed to %+v", m)
		}
	}
}

func TestSequenceProblems(t *testing.T) {
	const begins = `model "cat": `
	tests := []struct{ name, change, to, want string }{
		{
			"two strategies", "control_input [", "direct {} oldest {} control_input [",
			"sequence_batching: want at most one of direct and oldest",
		},
		{
			"idle", "control_input [", "max_sequence_idle_microseconds: 86400000001 control_input [",
			"sequence_batching: max_sequence_idle_microseconds: want at most 86400000000, got 86400000001",
		},
		{
			"utilization", "control_input [", "direct { minimum_slot_utilization: 1.5 } control_input [",
			"sequence_batching: direct: minimum_slot_utilization: want 0 to 1, got 1.5",
		},
		{
			"utilization below", "control_input [", "direct { minimum_slot_utilization: -0.5 } control_input [",
			"sequence_batching: direct: minimum_slot_utilization: want 0 to 1, got -0.5",
		},
		{
			"direct delay", "control_input [", "direct { max_queue_delay_microseconds: 86400000001 } control_input [",
			"sequence_batching: direct: max_queue_delay_microseconds: want at most 86400000000, got 86400000001",
		},
		{
			"oldest delay", "control_input [", "oldest { max_queue_delay_microseconds: 86400000001 } control_input [",
			"sequence_batching: oldest: max_queue_delay_microseconds: want at most 86400000000, got 86400000001",
		},
		{
			"preferred", "control_input [", "oldest { preferred_batch_size: [5] } control_input [",
			"sequence_batching: oldest: preferred_batch_size: want 1 to max_batch_size, which is 4, got 5",
		},
		{
			"candidates below 0", "control_input [", "oldest { max_candidate_sequences: -1 } control_input [",
			"sequence_batching: oldest: max_candidate_sequences: want 0 (max_batch_size) or more, got -1",
		},
		{
			"too many sequences", "control_input [", "oldest { max_candidate_sequences: 65537 } control_input [",
			"sequence_batching: 65537 sequences for each of 1 instances: at most 65536 over all instances are allowed",
		},
		{
			"two kinds at one", "fp32_false_true: [0, 1] }", "fp32_false_true: [0, 1] } control { kind: CONTROL_SEQUENCE_END }",
			`sequence_batching: control_input "START": want exactly one control, got 2`,
		},
		{"control without a name", `name: "START"`, "", "sequence_batching: control_input[0]: name is empty"},
		{
			"a kind twice", `{ name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }`,
			`{ name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }, { name: "Y" control { kind: ` +
				`CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }`, `sequence_batching: control_input "Y": ` +
				`CONTROL_SEQUENCE_CORRID stands at another control input, too`,
		},
		{
			"no values", "fp32_false_true: [0, 1]", "",
			`sequence_batching: control_input "START": CONTROL_SEQUENCE_START: want exactly one of int32_false_true, ` +
				`fp32_false_true and bool_false_true, got 0`,
		},
		{
			"two pairs", "fp32_false_true: [0, 1]", "fp32_false_true: [0, 1] int32_false_true: [0, 1]",
			`sequence_batching: control_input "START": CONTROL_SEQUENCE_START: want exactly one of int32_false_true, ` +
				`fp32_false_true and bool_false_true, got 2`,
		},
		{
			"three values", "fp32_false_true: [0, 1]", "fp32_false_true: [0, 1, 2]",
			`sequence_batching: control_input "START": CONTROL_SEQUENCE_START: want exactly 2 values, for false and for true, got 3`,
		},
		{
			"type of the id", "CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING", "CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32",
			`sequence_batching: control_input "ID": data_type of CONTROL_SEQUENCE_CORRID: want TYPE_UINT64, TYPE_INT64, ` +
				`TYPE_UINT32, TYPE_INT32 or TYPE_STRING, got TYPE_FP32`,
		},
		{
			"values of the id", "data_type: TYPE_STRING", "data_type: TYPE_STRING int32_false_true: [0, 1]",
			`sequence_batching: control_input "ID": CONTROL_SEQUENCE_CORRID takes no int32_false_true, fp32_false_true or bool_false_true`,
		},
		{
			"control of another name", `"START"`, `"BEGIN"`,
			`sequence_batching: control_input "BEGIN": "BEGIN" is not in the model (it has: x, START, ID, s)`,
		},
		{
			"control of another type", "fp32_false_true: [0, 1]", "bool_false_true: [false, true]",
			`sequence_batching: control_input "START": data_type: the model wants TYPE_FP32, got TYPE_BOOL`,
		},
		{"control that is an input", `"ID" control`, `"x" control`, `sequence_batching: control_input "x" is declared twice`},
		{"state without a name", `output_name: "t"`, "", `sequence_batching: state "s": want input_name and output_name`},
		{
			"state of another output", `output_name: "t"`, `output_name: "u"`,
			`sequence_batching: state "s": output_name: "u" is not in the model (it has: y, t)`,
		},
		{
			"state of another type", `data_type: TYPE_INT64 dims: [-1, 3] initial_state { name: "begin" data_type: TYPE_INT64`,
			`data_type: TYPE_INT32 dims: [-1, 3] initial_state { name: "begin" data_type: TYPE_INT32`,
			`sequence_batching: state "s": input_name: data_type: the model wants TYPE_INT64, got TYPE_INT32`,
		},
		{
			"state of another shape", "dims: [-1, 3]", "dims: [-1, 2]",
			`sequence_batching: state "s": input_name: the model wants shape [-1,-1,3], got [-1,-1,2]`,
		},
		{
			"state that is an output of another type", `output { name: "y" data_type: TYPE_FP32 dims: [2] }`,
			`output [ { name: "y" data_type: TYPE_FP32 dims: [2] }, { name: "t" data_type: TYPE_INT64 dims: [3, 3] } ]`,
			`sequence_batching: state "s": output_name: output "t" is declared as TYPE_INT64[3,3], and the state as TYPE_INT64[-1,3]`,
		},
		{
			"large state", "dims: [-1, 3]", "dims: [-1, 3, 3000000]",
			`sequence_batching: state "s": takes more than 67108864 bytes`,
		},
		{
			"two initial states", `data_file: "begin.bin" }`,
			`data_file: "begin.bin" } initial_state { name: "b" data_type: TYPE_INT64 dims: [1, 3] zero_data: true }`,
			`sequence_batching: state "s": initial_state: want at most one, got 2`,
		},
		{
			"initial state of no size", "dims: [2, 3]", "dims: [-1, 3]",
			`sequence_batching: state "s": initial_state: dims: want fixed sizes that fit [-1,3], got [-1,3]`,
		},
		{
			"large initial state", "dims: [2, 3]", "dims: [3000000, 3]",
			`sequence_batching: state "s": initial_state: takes more than 67108864 bytes`,
		},
		{
			"initial state of another type", "begin\" data_type: TYPE_INT64", "begin\" data_type: TYPE_INT32",
			`sequence_batching: state "s": initial_state: data_type: want TYPE_INT64, as the state, got TYPE_INT32`,
		},
		{
			"no source", `data_file: "begin.bin"`, "",
			`sequence_batching: state "s": initial_state: want exactly one of zero_data and data_file`,
		},
		{
			"file that is not there", `data_file: "begin.bin"`, `data_file: "b.bin"`,
			`sequence_batching: state "s": initial_state: data_file: there is no file "initial_state/b.bin" among the model's files`,
		},
		{
			"file elsewhere", `data_file: "begin.bin"`, `data_file: "../begin.bin"`,
			`sequence_batching: state "s": initial_state: data_file: file path "../begin.bin": want a clean path inside the model's folder`,
		},
		{
			"cache", "sequence_batching {", "response_cache { enable: true } sequence_batching {",
			"sequence_batching: response_cache is excluded by it",
		},
		{
			"padding", "sequence_batching {",
			`parameters { key: "padding_value" value { string_value: "0" } } sequence_batching {`,
			"parameters: padding_value: padding is excluded by sequence_batching",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(sequenceConfig, tt.change) {
				t.Fatalf("%q is not in the configuration", tt.change)
			}
			m, err := Parse("config.pbtxt", []byte(strings.Replace(sequenceConfig, tt.change, tt.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if m, err = Complete(m, "cat", sequenceFiles, sequenceSignature, Defaults{Formats: testFormats, InstanceCount: 1}); err == nil {
				err = Validate(m, sequenceFiles, sequenceSignature, testDefaults)
			}
			if !strings.Contains(fmt.Sprint(err), begins+tt.want) || edgewise.KindOf(err) != edgewise.Invalid {
				t.Errorf("got:\n%v\nwant:\n%s", err, begins+tt.want)
			}
		})
	}
	many := complete(t, "sequence_batching {}", validSignature)
	many.SequenceBatching.State = make([]edgewise.SequenceState, MaxStates+1)
	if err := Validate(many, validFiles, nil, testDefaults); err == nil || !strings.Contains(err.Error(), "sequence_batching: 65 "+
		"states, at most 64 are allowed") {
		t.Errorf("too many states: %v", err)
	}
}
