package ensemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// chain is a correct ensemble x -> a -> mid -> b -> y for the table to break.
func chain() *edgewise.Model {
	return pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"},
		stepOf("a", names{"x": "x"}, names{"y": "mid"}), stepOf("b", names{"x": "mid"}, names{"y": "y"}))
}

func parts() map[string]*edgewise.Model {
	one := []string{"x:FP32[-1]"}
	optional := model("optional", 0, []string{"x:FP32[-1]", "extra?:FP32[-1]"}, []string{"y:FP32[-1]"})
	return map[string]*edgewise.Model{
		"a": model("a", 0, one, []string{"y:FP32[-1]"}), "b": model("b", 0, one, []string{"y:FP32[-1]"}),
		"two":    model("two", 0, []string{"x:FP32[-1]", "z:FP32[-1]"}, []string{"y:FP32[-1]", "w:FP32[-1]"}),
		"int":    model("int", 0, []string{"x:INT32[-1]"}, []string{"y:INT32[-1]"}),
		"four":   model("four", 0, []string{"x:FP32[4]"}, []string{"y:FP32[4]"}),
		"five":   model("five", 0, []string{"x:FP32[5]"}, []string{"y:FP32[5]"}),
		"square": model("square", 0, []string{"x:FP32[-1,-1]"}, []string{"y:FP32[-1,-1]"}),
		"cube":   model("cube", 0, []string{"x:FP32[-1,-1,-1]"}, []string{"y:FP32[-1,-1,-1]"}),
		"batch4": model("batch4", 4, one, []string{"y:FP32[-1]"}), "batch8": model("batch8", 8, one, []string{"y:FP32[-1]"}),
		"text": model("text", 0, []string{"x:BYTES[-1]"}, []string{"y:BYTES[-1]"}), "optional": optional,
		"decoupled": decoupled(model("decoupled", 0, one, []string{"y:FP32[-1]"})),
		"other":     decoupled(model("other", 0, one, []string{"y:FP32[-1]"})),
	}
}

func TestValidate(t *testing.T) {
	step := func(m *edgewise.Model, i int) *edgewise.EnsembleStep { return &m.EnsembleScheduling.Step[i] }
	when := func(otherwise string, change func(*edgewise.EnsembleCondition)) func(*edgewise.Model) {
		return func(m *edgewise.Model) {
			c := &edgewise.EnsembleCondition{Tensor: "x", Operator: "GREATER", Over: "ANY", Otherwise: otherwise}
			step(m, 1).Condition = c
			if change != nil {
				change(c)
			}
		}
	}
	with := func(name string, d edgewise.EnsembleDefault) func(*edgewise.EnsembleCondition) {
		return func(c *edgewise.EnsembleCondition) { c.DefaultOutput = map[string]edgewise.EnsembleDefault{name: d} }
	}
	fan := func(f edgewise.EnsembleFanOut) func(*edgewise.Model) {
		return func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1,-1]"}, []string{"y:FP32[-1,-1]"}, stepOf("batch8", names{"x": "x"}, names{"y": "y"}))
			step(m, 0).FanOut = &f
		}
	}
	x, long := []string{"x"}, strings.Repeat("t", MaxTensorName)
	for _, test := range []struct {
		name   string
		change func(*edgewise.Model)
		want   []string // the problems, without "in ensemble 'E', "; none: it is correct
	}{
		{"correct", func(*edgewise.Model) {}, nil},

		{
			"no scheduling", func(m *edgewise.Model) { m.EnsembleScheduling = nil },
			[]string{`ensemble_scheduling is missing: platform "ensemble" needs its steps`},
		},
		{"no step", func(m *edgewise.Model) { m.EnsembleScheduling.Step = nil }, []string{"0 steps: want 1 to 256"}},
		{
			"too many steps", func(m *edgewise.Model) { m.EnsembleScheduling.Step = make([]edgewise.EnsembleStep, 257) },
			[]string{"257 steps: want 1 to 256"},
		},
		{
			"other platform", func(m *edgewise.Model) { m.Platform = "wasm" },
			[]string{`platform is "wasm": ensemble_scheduling goes with "ensemble"`},
		},
		{
			"instance_group", func(m *edgewise.Model) { m.InstanceGroup = make([]edgewise.InstanceGroup, 1) },
			[]string{"instance_group is not allowed"},
		},
		{"optimization", func(m *edgewise.Model) { m.Optimization = &edgewise.Optimization{} }, []string{"optimization is not allowed"}},
		{"model_warmup", func(m *edgewise.Model) { m.ModelWarmup = make([]edgewise.ModelWarmup, 1) }, []string{"model_warmup is not allowed"}},
		{
			"dynamic_batching", func(m *edgewise.Model) { m.DynamicBatching = &edgewise.DynamicBatching{} },
			[]string{"dynamic_batching is not allowed"},
		},
		{
			"sequence_batching", func(m *edgewise.Model) { m.SequenceBatching = &edgewise.SequenceBatching{} },
			[]string{"sequence_batching is not allowed"},
		},
		{"a model file", func(m *edgewise.Model) { m.DefaultModelFilename = "x" }, []string{"default_model_filename is not allowed"}},

		{"no model_name", func(m *edgewise.Model) { step(m, 0).ModelName = "" }, []string{"step 0: model_name: model name \"\" has 0 bytes"}},
		{
			"model_version 0", func(m *edgewise.Model) { step(m, 1).ModelVersion = 0 },
			[]string{"step 1 (model 'b'): model_version: want a version, or -1 for the live one, got 0"},
		},
		{
			"model_version -2", func(m *edgewise.Model) { step(m, 1).ModelVersion = -2 },
			[]string{"step 1 (model 'b'): model_version: want a version, or -1 for the live one, got -2"},
		},
		{
			"model_namespace", func(m *edgewise.Model) { step(m, 1).ModelNamespace = "n" },
			[]string{"step 1 (model 'b'): model_namespace is not served"},
		},
		{"no input_map", func(m *edgewise.Model) { step(m, 0).InputMap = nil }, []string{"step 0 (model 'a'): input_map has 0 entries"}},
		{"no output_map", func(m *edgewise.Model) { step(m, 0).OutputMap = nil }, []string{"step 0 (model 'a'): output_map has 0 entries"}},
		{
			"map without a name", func(m *edgewise.Model) { step(m, 0).InputMap = names{"x": ""} },
			[]string{"step 0 (model 'a'): input_map leads from 'x' to '': both need a name"},
		},
		{
			"a name that is too long", func(m *edgewise.Model) { step(m, 1).InputMap = names{"x": long + "t"} },
			[]string{"step 1 (model 'b'): input_map: the name " +
				"'tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt...' has 513 bytes, at most 512 are allowed"},
		},
		{"a name as long as allowed", func(m *edgewise.Model) {
			step(m, 0).OutputMap, step(m, 1).InputMap = names{"y": long}, names{"x": long}
		}, nil},
		{"long names in a condition and a fan-out", func(m *edgewise.Model) {
			step(m, 1).Condition = &edgewise.EnsembleCondition{
				Tensor:        long + "t",
				DefaultOutput: map[string]edgewise.EnsembleDefault{"y": {Tensor: long + "t"}},
			}
			step(m, 1).FanOut = &edgewise.EnsembleFanOut{Input: []string{long + "t"}}
		}, []string{"condition: tensor: the name", "condition: default_output: the name", "fan_out: input: the name"}},
		{"two problems of two steps", func(m *edgewise.Model) { step(m, 0).InputMap, step(m, 1).OutputMap = nil, nil }, []string{
			"step 0 (model 'a'): input_map has 0 entries", "step 1 (model 'b'): output_map has 0 entries",
		}},

		{"a tensor made twice", func(m *edgewise.Model) {
			m.EnsembleScheduling.Step = append(m.EnsembleScheduling.Step, stepOf("a", names{"x": "x"}, names{"y": "mid"}))
		}, []string{"step 2 (model 'a'): output 'y' makes tensor 'mid', which step 0 (model 'a') makes already"}},
		{"a tensor made twice by one step", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, stepOf("two", names{"x": "x", "z": "x"}, names{"y": "y", "w": "y"}))
		}, []string{"step 0 (model 'two'): outputs 'y' and 'w' both make tensor 'y'"}},
		{"an input made by a step", func(m *edgewise.Model) { step(m, 0).OutputMap = names{"y": "x"} }, []string{
			"step 0 (model 'a'): output 'y' makes tensor 'x', which is an input of the ensemble",
			"no step makes tensor 'mid', which step 1 (model 'b') needs",
		}},
		{"an input that is not used", func(m *edgewise.Model) { step(m, 0).InputMap = names{"x": "other"} }, []string{
			"input 'x' is not used by any step", "no step makes tensor 'other', which step 0 (model 'a') needs, and it is no input of the ensemble",
		}},
		{"an output that is not made", func(m *edgewise.Model) { step(m, 1).OutputMap = names{"y": "z"} }, []string{
			"tensor 'z', which step 1 (model 'b') makes, is not used: leave it out of output_map", "no step makes output 'y'",
		}},
		{"an output that is an input", func(m *edgewise.Model) {
			m.Output = append(m.Output, edgewise.ModelOutput{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}})
		}, []string{"tensor 'x' is an input and an output of the ensemble: no step makes it"}},
		{"an intermediate tensor that is not used", func(m *edgewise.Model) {
			m.EnsembleScheduling.Step[0] = stepOf("two", names{"x": "x", "z": "x"}, names{"y": "mid", "w": "left"})
		}, []string{"tensor 'left', which step 0 (model 'two') makes, is not used: leave it out of output_map"}},
		{"a circle", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"},
				stepOf("two", names{"x": "x", "z": "back"}, names{"y": "mid"}),
				stepOf("two", names{"x": "mid", "z": "x"}, names{"y": "y", "w": "back"}))
		}, []string{"steps wait for each other in a circle: step 0 (model 'two') -> step 1 (model 'two') -> step 0 (model 'two')"}},
		{"a step that needs itself", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, stepOf("two", names{"x": "x", "z": "w"}, names{"y": "y", "w": "w"}))
		}, []string{"steps wait for each other in a circle: step 0 (model 'two') -> step 0 (model 'two')"}},

		{
			"an input that the model lacks", func(m *edgewise.Model) { step(m, 0).InputMap = names{"x": "x", "k": "x"} },
			[]string{"step 0 (model 'a'): input_map names input 'k', which the model does not have"},
		},
		{
			"an output that the model lacks", func(m *edgewise.Model) { step(m, 0).OutputMap = names{"k": "mid"} },
			[]string{"step 0 (model 'a'): output_map names output 'k', which the model does not have"},
		},
		{"an input that is not mapped", func(m *edgewise.Model) {
			m.EnsembleScheduling.Step[0] = stepOf("two", names{"x": "x"}, names{"y": "mid"})
		}, []string{"step 0 (model 'two'): input 'z' of the model is missing in input_map"}},
		{"an optional input that is not mapped", func(m *edgewise.Model) {
			m.EnsembleScheduling.Step[0] = stepOf("optional", names{"x": "x"}, names{"y": "mid"})
		}, nil},
		{
			"an optional input for a required one", func(m *edgewise.Model) { m.Input[0].Optional = true },
			[]string{"step 0 (model 'a'): input 'x' is not optional, but tensor 'x' is an optional input of the ensemble"},
		},
		{
			"decoupled models in a row", func(m *edgewise.Model) {
				step(m, 0).ModelName, step(m, 1).ModelName = "decoupled", "other"
				decoupled(m)
			}, nil,
		},
		{"decoupled, and no step is", func(m *edgewise.Model) { decoupled(m) }, []string{
			"model_transaction_policy.decoupled is true, but no step runs a decoupled model",
		}},
		{"a decoupled model and the response cache", func(m *edgewise.Model) {
			step(m, 0).ModelName, m.ResponseCache = "decoupled", &edgewise.Switch{Enable: true}
		}, []string{"response_cache.enable: step 0 (model 'decoupled') is decoupled"}},
		{"a fan-out over a decoupled model", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1,-1]"}, []string{"y:FP32[-1,-1]"}, stepOf("decoupled", names{"x": "x"}, names{"y": "y"}))
			step(m, 0).FanOut = &edgewise.EnsembleFanOut{Input: []string{"x"}}
		}, []string{"step 0 (model 'decoupled'): fan_out: the model is decoupled"}},
		{"two decoupled models whose responses meet in a step", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, stepOf("two", names{"x": "a", "z": "b"}, names{"y": "y"}),
				stepOf("decoupled", names{"x": "x"}, names{"y": "a"}), stepOf("other", names{"x": "x"}, names{"y": "b"}))
		}, []string{"step 0 (model 'two') receives inputs originated from different decoupled models: " +
			"step 1 (model 'decoupled') and step 2 (model 'other')"}},
		{"two decoupled models whose responses meet in the answer", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]", "z:FP32[-1]"},
				stepOf("decoupled", names{"x": "x"}, names{"y": "y"}), stepOf("other", names{"x": "x"}, names{"y": "z"}))
		}, []string{"the answer receives inputs originated from different decoupled models"}},

		{"types between steps", func(m *edgewise.Model) { step(m, 1).ModelName = "int" }, []string{
			"tensor 'mid': step 0 (model 'a') makes it as output 'y' of type FP32, but step 1 (model 'int') takes it as input 'x' of type INT32",
			"tensor 'y': step 1 (model 'int') makes it as output 'y' of type INT32, but the ensemble declares it of type FP32",
		}},
		{
			"type of an input", func(m *edgewise.Model) { m.Input[0].DataType = edgewise.FP16 },
			[]string{"tensor 'x': the ensemble takes it of type FP16, but step 0 (model 'a') takes it as input 'x' of type FP32"},
		},
		{"shapes between steps", func(m *edgewise.Model) { step(m, 0).ModelName, step(m, 1).ModelName = "four", "five" }, []string{
			"tensor 'mid': step 0 (model 'four') makes it as output 'y' of shape [4], but step 1 (model 'five') takes it as input 'x' of shape [5]",
		}},
		{"a fixed size for a variable one", func(m *edgewise.Model) { step(m, 0).ModelName = "four" }, nil},
		{
			"shape of an output", func(m *edgewise.Model) { m.Output[0].Dims = edgewise.Shape{1, -1} },
			[]string{"tensor 'y': step 1 (model 'b') makes it as output 'y' of shape [-1], but the ensemble declares it of shape [1,-1]"},
		},
		{
			"ranks between steps", func(m *edgewise.Model) { step(m, 1).ModelName = "square" },
			[]string{
				"tensor 'mid': step 0 (model 'a') makes it as output 'y' of shape [-1], but step 1 (model 'square') takes",
				"tensor 'y': step 1 (model 'square') makes",
			},
		},
		{"a part that is not known", func(m *edgewise.Model) {
			step(m, 0).ModelName, step(m, 0).OutputMap = "unknown", names{"anything": "mid"}
		}, nil},

		{"a batch that a step does not take", func(m *edgewise.Model) {
			m.MaxBatchSize, step(m, 0).ModelName, step(m, 1).ModelName = 8, "batch8", "batch4"
		}, []string{"max_batch_size is 8, but step 1 (model 'batch4') takes at most 4"}},
		{"a batch that every step takes", func(m *edgewise.Model) {
			m.MaxBatchSize, step(m, 0).ModelName, step(m, 1).ModelName = 4, "batch8", "batch4"
		}, nil},
		{"a step without batches in an ensemble with them", func(m *edgewise.Model) { m.MaxBatchSize, step(m, 0).ModelName = 4, "batch8" }, nil},
		{"a step without batches in an ensemble with them, of another rank", func(m *edgewise.Model) {
			m.MaxBatchSize, step(m, 0).ModelName, step(m, 1).ModelName = 4, "batch8", "cube"
		}, []string{
			"tensor 'mid': step 0 (model 'batch8') makes it as output 'y' of shape [-1,-1], but step 1 (model 'cube') takes " +
				"it as input 'x' of shape [-1,-1,-1]",
			"tensor 'y'",
		}},
		{"a step that takes the whole batch as one tensor", func(m *edgewise.Model) {
			m.MaxBatchSize, step(m, 0).ModelName, step(m, 1).ModelName = 4, "batch8", "square"
			m.Output[0].Dims = edgewise.Shape{-1}
		}, nil},
		{"a step with batches in an ensemble without, of the same rank", func(m *edgewise.Model) { step(m, 1).ModelName = "batch8" }, nil},
		{"steps with batches in an ensemble without", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1,-1]"}, []string{"y:FP32[1,-1]"},
				stepOf("batch4", names{"x": "x"}, names{"y": "mid"}), stepOf("batch8", names{"x": "mid"}, names{"y": "y"}))
		}, nil},

		{"a condition that stops", when("STOP", nil), nil},
		{"a condition that skips", when("SKIP", with("y", edgewise.EnsembleDefault{Dims: edgewise.Shape{2}})), nil},
		{"another tensor instead", when("SKIP", with("y", edgewise.EnsembleDefault{Tensor: "mid"})), nil},
		{
			"no tensor", when("STOP", func(c *edgewise.EnsembleCondition) { c.Tensor = "" }),
			[]string{"no step makes tensor ''", "step 1 (model 'b'): condition: tensor is missing"},
		},
		{
			"a tensor that is not there", when("STOP", func(c *edgewise.EnsembleCondition) { c.Tensor = "k" }),
			[]string{"no step makes tensor 'k', which step 1 (model 'b') needs"},
		},
		{
			"a condition on the step's own output", when("STOP", func(c *edgewise.EnsembleCondition) { c.Tensor = "y" }),
			[]string{"steps wait for each other in a circle: step 1 (model 'b') -> step 1 (model 'b')"},
		},
		{"a condition in a batch", func(m *edgewise.Model) {
			m.MaxBatchSize, step(m, 0).ModelName, step(m, 1).ModelName = 4, "batch8", "batch8"
			when("STOP", nil)(m)
		}, []string{"step 1 (model 'batch8'): condition: the ensemble must have max_batch_size 0, got 4"}},
		{
			"text for numbers", when("STOP", func(c *edgewise.EnsembleCondition) { c.Text, c.Operator = "t", "EQUAL" }),
			[]string{"step 1 (model 'b'): condition: text is given, but tensor 'x' is of type FP32"},
		},
		{"a number for text", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:BYTES[-1]"}, []string{"y:BYTES[-1]"}, stepOf("text", names{"x": "x"}, names{"y": "m"}),
				stepOf("text", names{"x": "m"}, names{"y": "y"}))
			when("STOP", func(c *edgewise.EnsembleCondition) { c.Value = 1 })(m)
		}, []string{
			"condition: value is given, but the elements of tensor 'x' are text",
			"condition: operator GREATER: text is compared with EQUAL or NOT_EQUAL",
		}},
		{"no default", when("SKIP", nil), []string{"step 1 (model 'b'): condition: default_output 'y' is missing"}},
		{
			"a default with stop", when("STOP", with("y", edgewise.EnsembleDefault{Dims: edgewise.Shape{2}})),
			[]string{"step 1 (model 'b'): condition: default_output goes with otherwise: SKIP"},
		},
		{"a default of an output that is not mapped", when("SKIP", with("k", edgewise.EnsembleDefault{})), []string{
			"condition: default_output names output 'k', which is not in output_map", "condition: default_output 'y' is missing",
		}},
		{
			"two defaults for one output", when("SKIP", with("y", edgewise.EnsembleDefault{Tensor: "mid", Value: 1})),
			[]string{"condition: default_output 'y': want a tensor, or dims with value or text, not both"},
		},
		{
			"a default of another shape", when("SKIP", with("y", edgewise.EnsembleDefault{})),
			[]string{"condition: default_output 'y': dims are [], the output has shape [-1]"},
		},
		{
			"a default that is too large", when("SKIP", with("y", edgewise.EnsembleDefault{Dims: edgewise.Shape{1<<18 + 1}})),
			[]string{"dims [262145] have a negative size or take more than 1048576 bytes"},
		},
		{"a default as large as allowed", when("SKIP", with("y", edgewise.EnsembleDefault{Dims: edgewise.Shape{1 << 18}})), nil},
		{
			"a default of text for numbers", when("SKIP",
				with("y", edgewise.EnsembleDefault{Dims: edgewise.Shape{1}, Text: "t"})),
			[]string{"default_output 'y': text is given, but the output is of type FP32"},
		},
		{"a default that is no number of the type", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:INT32[-1]"}, []string{"y:INT32[-1]"}, stepOf("int", names{"x": "x"}, names{"y": "m"}),
				stepOf("int", names{"x": "m"}, names{"y": "y"}))
			when("SKIP", with("y", edgewise.EnsembleDefault{Dims: edgewise.Shape{1}, Value: 0.5}))(m)
		}, []string{"default_output 'y': value 0.5 is no INT32"}},
		{"a default tensor of another type", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]", "k:INT32[-1]"}, []string{"y:FP32[-1]", "z:INT32[-1]"},
				stepOf("int", names{"x": "k"}, names{"y": "z"}), stepOf("a", names{"x": "x"}, names{"y": "y"}))
			when("SKIP", with("y", edgewise.EnsembleDefault{Tensor: "z"}))(m)
		}, []string{"default_output 'y': tensor 'z' is INT32[-1], the output is FP32[-1]"}},

		{"a fan-out", fan(edgewise.EnsembleFanOut{Input: x}), nil},
		{"a fan-out of nothing", fan(edgewise.EnsembleFanOut{}), []string{"fan_out: input is empty"}},
		{
			"a fan-out of an input that is not mapped", fan(edgewise.EnsembleFanOut{Input: []string{"x", "k"}}),
			[]string{"fan_out: input 'k' is not in input_map"},
		},
		{
			"a fan-out of an input twice", fan(edgewise.EnsembleFanOut{Input: []string{"x", "x"}}),
			[]string{"fan_out: input 'x' is listed twice"},
		},
		{
			"too many leading dimensions", fan(edgewise.EnsembleFanOut{Input: x, LeadingDims: 33}),
			[]string{"fan_out: leading_dims: want 1 to 32, got 33", "tensor 'x'", "tensor 'y'"},
		},
		{
			"leading dimensions beyond all memory", fan(edgewise.EnsembleFanOut{Input: x, LeadingDims: 1<<32 - 1}),
			[]string{"fan_out: leading_dims: want 1 to 32, got 4294967295", "tensor 'x'", "tensor 'y'"},
		},
		{"too many rows", fan(edgewise.EnsembleFanOut{Input: x, MaxRows: 65537}), []string{"fan_out: max_rows: want 1 to 65536, got 65537"}},
		{"as many rows as allowed", fan(edgewise.EnsembleFanOut{Input: x, MaxRows: 65536}), nil},
		{
			"too many rows in a request", fan(edgewise.EnsembleFanOut{Input: x, RowsPerRequest: 9}),
			[]string{"fan_out: rows_per_request: want at most 8, got 9"},
		},
		{"a fan-out over the ensemble's batch", func(m *edgewise.Model) {
			*m = *pipeline(2, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, stepOf("batch8", names{"x": "x"}, names{"y": "y"}))
			step(m, 0).FanOut = &edgewise.EnsembleFanOut{Input: x}
		}, []string{"fan_out: leading_dims: the first dimension is the ensemble's batch, so want 2 or more, got 1"}},
		{"a fan-out inside the ensemble's batch", func(m *edgewise.Model) {
			*m = *pipeline(2, []string{"x:FP32[-1,-1]"}, []string{"y:FP32[-1,-1]"}, stepOf("a", names{"x": "x"}, names{"y": "y"}))
			step(m, 0).FanOut = &edgewise.EnsembleFanOut{Input: x, LeadingDims: 2}
		}, nil},
		{
			"a fan-out into rows of another rank", fan(edgewise.EnsembleFanOut{Input: x, LeadingDims: 2}),
			[]string{"tensor 'x': the ensemble takes it of shape [-1,-1], but step 0 (model 'batch8') takes it as input 'x' " +
				"of shape [-1,-1,-1]", "tensor 'y'"},
		},
		{"a fan-out of an input that may be missing", func(m *edgewise.Model) {
			*m = *pipeline(0, []string{"x:FP32[-1]", "k?:FP32[-1,-1]"}, []string{"y:FP32[-1,-1]"},
				stepOf("optional", names{"x": "x", "extra": "k"}, names{"y": "y"}))
			step(m, 0).FanOut = &edgewise.EnsembleFanOut{Input: []string{"extra"}}
		}, []string{"fan_out: input 'extra' may be missing in a request"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := chain()
			test.change(m)
			wantProblems(t, Validate(m, modelsOf(m)), test.want)
		})
	}
}

func modelsOf(m *edgewise.Model) []*edgewise.Model {
	if m.EnsembleScheduling == nil {
		return nil
	}
	all := parts()
	models := make([]*edgewise.Model, len(m.EnsembleScheduling.Step))
	for i, s := range m.EnsembleScheduling.Step {
		models[i] = all[s.ModelName]
	}
	return models
}

// wantProblems checks that err has exactly these problems, each known by its beginning or a part of it.
func wantProblems(t *testing.T, err error, want []string) {
	t.Helper()
	if len(want) == 0 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Fatalf("got %v, want %q", err, want)
	}
	lines := strings.Split(err.Error(), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, "in ensemble 'E', ") {
			t.Errorf("line %q", line)
		}
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("missing: %q in\n%v", part, err)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d problems, want %d:\n%v", len(lines), len(want), err)
	}
}

func TestProblemsBeyondTheBoundAreCounted(t *testing.T) {
	m := chain()
	for range 120 {
		m.EnsembleScheduling.Step = append(m.EnsembleScheduling.Step,
			stepOf("", names{"x": "x"}, names{"y": strings.Repeat("z", MaxTensorName+1)}))
	}
	err := Validate(m, nil)
	if err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("\n... and %d more", 2*120-MaxProblems)) {
		t.Errorf("got %v", err)
	}
}

func TestMoreTensorsThanAllowed(t *testing.T) {
	m := chain()
	step := &m.EnsembleScheduling.Step[0]
	for i := range MaxTensors - 1 {
		step.InputMap[fmt.Sprint("i", i)] = fmt.Sprint("t", i)
	}
	if err := Validate(m, make([]*edgewise.Model, 2)); err == nil || !strings.Contains(err.Error(), "4098 tensors: at most 4096 are allowed") {
		t.Errorf("got %v", err)
	}
}
