package modelconfig

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

var validFiles = []string{"config.pbtxt", "labels.txt", "model.onnx", "warmup/image.bin"}

var validSignature = signature(
	[]edgewise.TensorInfo{info("image", edgewise.FP32, -1, 3, -1, -1), info("words", edgewise.Bytes, -1, -1)},
	[]edgewise.TensorInfo{info("scores", edgewise.FP32, -1, 6), info("more", edgewise.Int64, -1)},
)

const validConfig = `
max_batch_size: 8
input { name: "image" data_type: TYPE_FP32 format: FORMAT_NHWC dims: [3, 224, -1] }
input { name: "words" data_type: TYPE_STRING dims: [1, 2] reshape { shape: [2] } }
output { name: "scores" data_type: TYPE_FP32 dims: [2, 3] reshape { shape: [6] } label_filename: "labels.txt" }
instance_group [ { count: 2 } , { kind: KIND_CPU count: 62 } ]
dynamic_batching {
  preferred_batch_size: [1, 8] max_queue_delay_microseconds: 86400000000 preserve_ordering: true
  default_queue_policy { default_timeout_microseconds: 86400000000 allow_timeout_override: true max_queue_size: 9 }
}
model_warmup {
  name: "w" batch_size: 8 count: 1000
  inputs { key: "image" value { data_type: TYPE_FP32 dims: [3, 224, 5] input_data_file: "image.bin" } }
  inputs { key: "words" value { data_type: TYPE_STRING dims: [1, 2] random_data: true } }
}
parameters { key: "anything" value { string_value: "of the user" } }
metric_tags { key: "site" value: "berlin" }
optimization { graph { level: -1 } }
`

func complete(t *testing.T, config string, ins *edgewise.Inspection) *edgewise.Model {
	t.Helper()
	m, err := Parse("config.pbtxt", []byte(config))
	if err == nil {
		m, err = Complete(m, "cat", validFiles, ins, testDefaults)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAValidModelHasNoProblem(t *testing.T) {
	m := complete(t, validConfig, validSignature)
	if err := Validate(m, validFiles, validSignature, testDefaults); err != nil {
		t.Error(err)
	}
	if err := Validate(m, validFiles, nil, testDefaults); err != nil {
		t.Errorf("without a signature: %v", err)
	}
}

// broken is a valid model with one thing changed, and the problem that must come of it.
type broken struct {
	name   string
	change func(m *edgewise.Model)
	want   string
}

func (tt broken) run(t *testing.T, ins *edgewise.Inspection) {
	t.Run(tt.name, func(t *testing.T) {
		m := complete(t, validConfig, validSignature)
		tt.change(m)
		err := Validate(m, validFiles, ins, testDefaults)
		want := fmt.Sprintf("model %q: %s", m.Name, tt.want)
		if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("got:\n%v\nwant:\n%s", err, want)
		}
	})
}

func TestValidateRefusesTensors(t *testing.T) {
	image := func(change func(in *edgewise.ModelInput)) func(*edgewise.Model) {
		return func(m *edgewise.Model) { m.ModelWarmup = nil; change(&m.Input[0]) }
	}
	scores := func(change func(out *edgewise.ModelOutput)) func(*edgewise.Model) {
		return func(m *edgewise.Model) { change(&m.Output[0]) }
	}
	long := strings.Repeat("x", MaxTensorName+1)
	tests := []broken{
		{"empty dims", scores(func(out *edgewise.ModelOutput) {
			out.Dims, out.Reshape = nil, &edgewise.Reshape{Shape: edgewise.Shape{6}}
		}), "output \"scores\": dims is empty: write [1], and reshape { shape: [] } if the model's tensor has no " +
			"dimensions\nmodel \"cat\": output \"scores\": reshape: [6] and dims [] have different numbers of elements"},
		{
			"dim below -1", image(func(in *edgewise.ModelInput) { in.Dims[1] = -2 }),
			`input "image": dims[1]: want -1 (any size) or 0 and more, got -2`,
		},
		{
			"too many elements", image(func(in *edgewise.ModelInput) { in.Dims = edgewise.Shape{3, math.MaxInt64, 2} }),
			`input "image": dims: [3,9223372036854775807,2] has too many elements`,
		},
		{"format without 3 dims", image(func(in *edgewise.ModelInput) {
			in.Dims = edgewise.Shape{3, 1, 1, 1}
			in.Reshape = &edgewise.Reshape{Shape: edgewise.Shape{3, 1, 1}}
		}), `input "image": format FORMAT_NHWC needs 3 dims, got 4`},
		{
			"unknown format", image(func(in *edgewise.ModelInput) { in.Format = "FORMAT_X" }),
			`input "image": format: unknown name "FORMAT_X"`,
		},
		{
			"reshape with another number of -1",
			image(func(in *edgewise.ModelInput) { in.Reshape = &edgewise.Reshape{Shape: edgewise.Shape{3, 224, 224}} }),
			`input "image": reshape: [3,224,224] and dims [3,224,-1] have different numbers of -1`,
		},
		{
			"reshape with another number of elements",
			image(func(in *edgewise.ModelInput) { in.Reshape = &edgewise.Reshape{Shape: edgewise.Shape{3, 112, -1}} }),
			`input "image": reshape: [3,112,-1] and dims [3,224,-1] have different numbers of elements`,
		},
		{
			"reshape that moves elements across -1",
			image(func(in *edgewise.ModelInput) { in.Reshape = &edgewise.Reshape{Shape: edgewise.Shape{3, -1, 224}} }),
			`input "image": reshape: [3,-1,224] and dims [3,224,-1] have different numbers of elements`,
		},
		{
			"reshape with a bad dim",
			scores(func(out *edgewise.ModelOutput) { out.Reshape = &edgewise.Reshape{Shape: edgewise.Shape{6, 0}} }),
			"output \"scores\": reshape: [6,0] and dims [2,3] have different numbers of elements\nmodel \"cat\": output " +
				"\"scores\": the model wants shape [-1,6], got [-1,6,0] (with the batch dimension that max_batch_size adds in front, after reshape)",
		},
		{
			"no type", scores(func(out *edgewise.ModelOutput) { out.DataType = edgewise.InvalidType }),
			`output "scores": data_type is missing`,
		},
		{"no name", func(m *edgewise.Model) {
			m.ModelWarmup = nil
			m.Input = append(m.Input, edgewise.ModelInput{DataType: edgewise.FP32, Dims: edgewise.Shape{1}})
		}, `input[2]: name is empty`},
		{
			"control character in a name", func(m *edgewise.Model) { m.Output[0].Name = "a\x00" },
			"output \"a\\x00\": name holds a control character\nmodel \"cat\": output \"a\\x00\" is not in the model (it has: scores, more)",
		},
		{"long name", func(m *edgewise.Model) { m.Output[0].Name = long }, fmt.Sprintf("output %q: name has 513 bytes, at "+
			"most 512 are allowed\nmodel \"cat\": output %q is not in the model (it has: scores, more)", long[:64], long[:64])},
		{"input twice", func(m *edgewise.Model) { m.Input = append(m.Input, m.Input[0]) }, `input "image" is declared twice`},
		{
			"output twice", func(m *edgewise.Model) { m.Output = append(m.Output, m.Output[0]) },
			`output "scores" is declared twice`,
		},
		{"no outputs", func(m *edgewise.Model) { m.Output = nil }, `output: want at least one`},
		{
			"optional with batches", image(func(in *edgewise.ModelInput) { in.Optional = true }),
			"input \"image\": optional, but the model has no default for it",
		},
		{
			"label file missing", scores(func(out *edgewise.ModelOutput) { out.LabelFilename = "label.txt" }),
			`output "scores": label_filename: there is no file "label.txt" among the model's files`,
		},
		{
			"label file outside", scores(func(out *edgewise.ModelOutput) { out.LabelFilename = "../labels.txt" }),
			`output "scores": label_filename: file path "../labels.txt": want a clean path inside the model's folder`,
		},

		{
			"input that the model lacks", func(m *edgewise.Model) { m.ModelWarmup = nil; m.Input[1].Name = "word" },
			"input \"word\" is not in the model (it has: image, words)\nmodel \"cat\": input \"words\" is missing: the model " +
				"needs it, as TYPE_STRING[-1,-1]",
		},
		{
			"another type", func(m *edgewise.Model) { m.Output[0].DataType = edgewise.Int64 },
			`output "scores": data_type: the model wants TYPE_FP32, got TYPE_INT64`,
		},
		{
			"another rank", scores(func(out *edgewise.ModelOutput) { out.Reshape = nil }),
			`output "scores": the model wants shape [-1,6], got [-1,2,3] (with the batch dimension that max_batch_size adds in front)`,
		},
		{
			"another fixed dim", image(func(in *edgewise.ModelInput) { in.Dims[0] = 4 }),
			`input "image": the model wants shape [-1,3,-1,-1], got [-1,4,224,-1] (with the batch dimension that max_batch_size adds in front)`,
		},
		{"any size where the model's is fixed", func(m *edgewise.Model) {
			m.Output[0].Dims,
				m.Output[0].Reshape = edgewise.Shape{-1}, nil
		}, `output "scores": the model wants shape [-1,6], got [-1,-1] (with the batch dimension that max_batch_size adds in front)`},
	}
	for _, tt := range tests {
		tt.run(t, validSignature)
	}
}

func TestValidateKeepsTheRankBelowItsBound(t *testing.T) {
	most := slices.Repeat(edgewise.Shape{1}, edgewise.MaxRank)
	m := complete(t, "", signature(nil, []edgewise.TensorInfo{info("y", edgewise.FP32, most...)}))
	if err := Validate(m, validFiles, nil, testDefaults); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	m.MaxBatchSize = 1
	want := `model "cat": output "y": dims: 32 dimensions, at most 31 are allowed`
	if err := Validate(m, validFiles, nil, testDefaults); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestValidateComparesWithModelsThatCannotBatch(t *testing.T) {
	in, out := info("x", edgewise.FP32, 1, 2), info("y", edgewise.FP32)
	ins := signature([]edgewise.TensorInfo{in, optional(info("o", edgewise.FP32, 2))}, []edgewise.TensorInfo{out})
	const x, y = `input { name: "x" data_type: TYPE_FP32 dims: [1, 2] } `,
		`output { name: "y" data_type: TYPE_FP32 dims: 1 reshape { } } `
	tests := []struct{ name, config, want string }{
		{"as the model", x + y, ""},
		{"with the optional input", x + y + `input { name: "o" data_type: TYPE_FP32 dims: 2 optional: true }`, ""},
		{"with the optional input made required", x + y + `input { name: "o" data_type: TYPE_FP32 dims: 2 }`, ""},
		{
			"scalar without reshape", x + `output { name: "y" data_type: TYPE_FP32 dims: 1 }`,
			`model "cat": output "y": the model wants shape [], got [1]`,
		},
		{
			"with batches", `max_batch_size: 2 input { name: "x" data_type: TYPE_FP32 dims: 2 } ` + y,
			"model \"cat\": input \"x\": max_batch_size is 2, but the model's shape [1,2] has no variable first dimension: " +
				"set max_batch_size to 0\nmodel \"cat\": output \"y\": max_batch_size is 2, but the model's shape [] has no " +
				"variable first dimension: set max_batch_size to 0",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Validate(complete(t, tt.config, nil), validFiles, ins, testDefaults)
			if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
				t.Errorf("got:\n%v\nwant:\n%s", err, tt.want)
			}
		})
	}
}

func TestValidateRefusesTypesThatCannotBeServed(t *testing.T) {
	ins := signature(nil, []edgewise.TensorInfo{{Name: "y", Datatype: "seq(map(int64,float))", Shape: edgewise.Shape{1}}})
	want := "model \"cat\": output \"y\": data_type is missing\nmodel \"cat\": output \"y\": the model's type is " +
		"\"seq(map(int64,float))\", which cannot be served"
	if err := Validate(complete(t, "", ins), validFiles, ins, testDefaults); err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	missing := signature([]edgewise.TensorInfo{{Name: "x", Datatype: "optional", Shape: edgewise.Shape{}}},
		[]edgewise.TensorInfo{info("y", edgewise.FP32, 1)})
	m := complete(t, `output { name: "y" data_type: TYPE_FP32 dims: 1 }`, nil)
	want = "model \"cat\": input \"x\" is missing: the model needs it, as optional[]"
	if err := Validate(m, validFiles, missing, testDefaults); err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestValidateRefusesTheRest(t *testing.T) {
	group := func(change func(g *edgewise.InstanceGroup)) func(*edgewise.Model) {
		return func(m *edgewise.Model) { change(&m.InstanceGroup[0]) }
	}
	batching := func(change func(b *edgewise.DynamicBatching)) func(*edgewise.Model) {
		return func(m *edgewise.Model) { change(m.DynamicBatching) }
	}
	warmup := func(change func(w *edgewise.ModelWarmup)) func(*edgewise.Model) {
		return func(m *edgewise.Model) { change(&m.ModelWarmup[0]) }
	}
	warmupInput := func(name string, change func(in *edgewise.WarmupInput)) func(*edgewise.Model) {
		return warmup(func(w *edgewise.ModelWarmup) { in := w.Inputs[name]; change(&in); w.Inputs[name] = in })
	}
	policy := func(p edgewise.VersionPolicy) func(*edgewise.Model) {
		return func(m *edgewise.Model) { m.VersionPolicy = &p }
	}
	tags := func(key, value string, n int) func(*edgewise.Model) {
		return func(m *edgewise.Model) {
			m.MetricTags = map[string]string{key: value}
			for i := range n - 1 {
				m.MetricTags[fmt.Sprintf("t%d", i)] = ""
			}
		}
	}
	tests := []broken{
		{
			"name", func(m *edgewise.Model) { m.Name = "a/b" },
			`model name "a/b": character '/' at byte 1 is not allowed: want ASCII letters, digits and any of "_-.,", ` +
				`beginning with a letter, a digit or '_'`,
		},
		{
			"platform", func(m *edgewise.Model) { m.Platform = "x" },
			`platform "x" with backend "onnxruntime" is not served by this box: want "onnxruntime_onnx" with "onnxruntime"`,
		},
		{
			"model file missing", func(m *edgewise.Model) { m.DefaultModelFilename = "net.onnx" },
			`default_model_filename: there is no file "net.onnx" among the model's files`,
		},
		{
			"model file outside", func(m *edgewise.Model) { m.DefaultModelFilename = "/model.onnx" },
			`default_model_filename: file path "/model.onnx": want a clean path inside the model's folder`,
		},
		{
			"max_batch_size", func(m *edgewise.Model) { m.MaxBatchSize = MaxBatchSize + 1 },
			"max_batch_size: want 0 to 65536, got 65537",
		},

		{
			"version policy without a choice", policy(edgewise.VersionPolicy{}),
			"version_policy: want exactly one of latest, all and specific, got 0",
		},
		{
			"version policy with two choices",
			policy(edgewise.VersionPolicy{All: &struct{}{}, Latest: &edgewise.LatestVersions{NumVersions: 1}}),
			"version_policy: want exactly one of latest, all and specific, got 2",
		},
		{
			"latest 0", policy(edgewise.VersionPolicy{Latest: &edgewise.LatestVersions{}}),
			"version_policy: latest: num_versions: want 1 or more, got 0",
		},
		{
			"no specific version", policy(edgewise.VersionPolicy{Specific: &edgewise.SpecificVersions{}}),
			"version_policy: specific: versions is empty: want at least one",
		},
		{
			"specific versions",
			policy(edgewise.VersionPolicy{Specific: &edgewise.SpecificVersions{Versions: []int64{0, 2, 2}}}),
			"version_policy: specific: versions are 1 or more, got 0\nmodel \"cat\": version_policy: specific: version 2 is listed twice",
		},

		{"no instance group", func(m *edgewise.Model) { m.InstanceGroup = nil }, "instance_group: want at least one"},
		{
			"count below 1", group(func(g *edgewise.InstanceGroup) { g.Count = -1 }),
			"instance_group[0]: count: want 1 to 64, got -1",
		},
		{
			"too many instances", group(func(g *edgewise.InstanceGroup) { g.Count = 3 }),
			"instance_group: 65 instances over all groups, at most 64 are allowed",
		},
		{
			"name taken", group(func(g *edgewise.InstanceGroup) { g.Name = "cat_1" }),
			`instance_group[1]: the name "cat_1" is taken by another group`,
		},
		{"latency with several instances", func(m *edgewise.Model) {
			m.Parameters = map[string]edgewise.ModelParam{"execution_profile": {StringValue: "latency"}}
		}, `instance_group: 64 instances over all groups: execution_profile "latency" runs one at a time, leave count out or write 1`},
		{
			"unknown kind", group(func(g *edgewise.InstanceGroup) { g.Kind = "KIND_TPU" }),
			`instance_group[0]: kind: unknown name "KIND_TPU"`,
		},
		{
			"GPUs for the CPU", group(func(g *edgewise.InstanceGroup) {
				g.Kind, g.GPUs = edgewise.KindCPU, []int32{0}
			}),
			"instance_group[0]: gpus is set for a group of KIND_CPU",
		},

		{
			"preferred size 0", batching(func(b *edgewise.DynamicBatching) { b.PreferredBatchSize[0] = 0 }),
			"dynamic_batching: preferred_batch_size: want 1 to max_batch_size, which is 8, got 0",
		},
		{
			"preferred size above the maximum", batching(func(b *edgewise.DynamicBatching) { b.PreferredBatchSize[1] = 9 }),
			"dynamic_batching: preferred_batch_size: want 1 to max_batch_size, which is 8, got 9",
		},
		{
			"delay", batching(func(b *edgewise.DynamicBatching) { b.MaxQueueDelay = MaxQueueTime + 1 }),
			"dynamic_batching: max_queue_delay_microseconds: want at most 86400000000, got 86400000001",
		},
		{
			"timeout", batching(func(b *edgewise.DynamicBatching) { b.DefaultQueuePolicy.DefaultTimeout = MaxQueueTime + 1 }),
			"dynamic_batching: default_queue_policy: default_timeout_microseconds: want at most 86400000000, got 86400000001",
		},
		{
			"timeout action", batching(func(b *edgewise.DynamicBatching) { b.DefaultQueuePolicy.TimeoutAction = "WAIT" }),
			`dynamic_batching: default_queue_policy: timeout_action: want REJECT or DELAY, got "WAIT"`,
		},
		{
			"priority levels without a default", batching(func(b *edgewise.DynamicBatching) { b.PriorityLevels = 1 }),
			"dynamic_batching: default_priority_level: want 1 to priority_levels, which is 1, got 0",
		},
		{
			"default priority above the levels", batching(func(b *edgewise.DynamicBatching) { b.DefaultPriorityLevel = 1 }),
			"dynamic_batching: default_priority_level: want 1 to priority_levels, which is 0, got 1",
		},
		{
			"several priorities in order",
			batching(func(b *edgewise.DynamicBatching) { b.PriorityLevels, b.DefaultPriorityLevel = 2, 1 }),
			"dynamic_batching: preserve_ordering excludes priority_levels above 1, got 2",
		},
		{"default priority above all levels that there can be", batching(func(b *edgewise.DynamicBatching) {
			b.PreserveOrdering, b.PriorityLevels, b.DefaultPriorityLevel = false, math.MaxUint64-1, math.MaxUint64
		}), "dynamic_batching: default_priority_level: want 1 to priority_levels, which is 18446744073709551614, got " +
			"18446744073709551615"},
		{"policies of unknown levels", batching(func(b *edgewise.DynamicBatching) {
			b.PriorityLevels, b.DefaultPriorityLevel = 1, 1
			b.PriorityQueuePolicy = map[string]edgewise.QueuePolicy{
				"1": {TimeoutAction: "REJECT"},
				"2": {TimeoutAction: "REJECT"}, "x": {TimeoutAction: "NO"},
			}
		}), strings.Join([]string{
			`dynamic_batching: priority_queue_policy["x"]: timeout_action: want REJECT or DELAY, got "NO"`,
			`dynamic_batching: priority_queue_policy: want levels 1 to priority_levels, which is 1, got "2"`,
			`dynamic_batching: priority_queue_policy: want levels 1 to priority_levels, which is 1, got "x"`,
		}, "\nmodel \"cat\": ")},
		{
			"DELAY in order", batching(func(b *edgewise.DynamicBatching) { b.DefaultQueuePolicy.TimeoutAction = "DELAY" }),
			"dynamic_batching: default_queue_policy: timeout_action DELAY is excluded by preserve_ordering",
		},
		{
			"two schedulers", func(m *edgewise.Model) { m.SequenceBatching = &edgewise.SequenceBatching{} },
			"want at most one of dynamic_batching, sequence_batching and ensemble_scheduling, got 2",
		},

		{"all passive", func(m *edgewise.Model) {
			m.InstanceGroup[0].Passive, m.InstanceGroup[1].Passive = true, true
		}, "instance_group: every group is passive, so no instance takes requests"},
		{
			"resource without a name", limits(edgewise.RateLimiterResource{Count: 1}),
			"instance_group[0]: rate_limiter: resources[0]: name has 0 bytes: want 1 to 512",
		},
		{"resource twice", limits(edgewise.RateLimiterResource{Name: "R", Count: 1},
			edgewise.RateLimiterResource{Name: "R", Global: true}), "instance_group[0]: rate_limiter: resource \"R\" is " +
			"listed twice"},
		{
			"much of a resource", limits(edgewise.RateLimiterResource{Name: "R", Count: math.MaxInt32 + 1}),
			"instance_group[0]: rate_limiter: resource \"R\": count: want at most 2147483647, got 2147483648",
		},
		{
			"many resources", limits(manyResources()...),
			"instance_group[0]: rate_limiter: 65 resources, at most 64 are allowed",
		},
		{"warm-up without a name", warmup(func(w *edgewise.ModelWarmup) { w.Name = "" }), "model_warmup[0]: name is empty"},
		{
			"warm-up twice", func(m *edgewise.Model) { m.ModelWarmup = append(m.ModelWarmup, m.ModelWarmup[0]) },
			`model_warmup "w" is declared twice`,
		},
		{
			"warm-up batch 0", warmup(func(w *edgewise.ModelWarmup) { w.BatchSize = 0 }),
			`model_warmup "w": batch_size: want 1 to 8, got 0`,
		},
		{
			"warm-up batch above the maximum", warmup(func(w *edgewise.ModelWarmup) { w.BatchSize = 9 }),
			`model_warmup "w": batch_size: want 1 to 8, got 9`,
		},
		{
			"warm-up count", warmup(func(w *edgewise.ModelWarmup) { w.Count = MaxWarmupCount + 1 }),
			`model_warmup "w": count: want at most 1000, got 1001`,
		},
		{
			"warm-up input missing", warmup(func(w *edgewise.ModelWarmup) { delete(w.Inputs, "words") }),
			`model_warmup "w": input "words" is missing`,
		},
		{
			"warm-up input unknown", warmup(func(w *edgewise.ModelWarmup) { w.Inputs["x"] = edgewise.WarmupInput{} }),
			`model_warmup "w": input "x" is not an input of the model`,
		},
		{
			"warm-up type", warmupInput("image", func(in *edgewise.WarmupInput) { in.DataType = edgewise.FP16 }),
			`model_warmup "w": input "image": data_type: want TYPE_FP32, got TYPE_FP16`,
		},
		{
			"warm-up with any size",
			warmupInput("image", func(in *edgewise.WarmupInput) { in.Dims = edgewise.Shape{3, 224, -1} }),
			`model_warmup "w": input "image": dims: want fixed sizes that fit [3,224,-1], got [3,224,-1]`,
		},
		{
			"warm-up with other dims", warmupInput("image",
				func(in *edgewise.WarmupInput) { in.Dims = edgewise.Shape{3, 1, 1} }),
			`model_warmup "w": input "image": dims: want fixed sizes that fit [3,224,-1], got [3,1,1]`,
		},
		{
			"warm-up size", warmupInput("image", func(in *edgewise.WarmupInput) { in.Dims = edgewise.Shape{3, 224, 12484} }),
			`model_warmup "w": input "image": takes more than 268435456 bytes`,
		},
		{
			"warm-up without data", warmupInput("words", func(in *edgewise.WarmupInput) { in.RandomData = false }),
			`model_warmup "w": input "words": want exactly one of zero_data, random_data and input_data_file, got 0`,
		},
		{
			"warm-up with two sources", warmupInput("image", func(in *edgewise.WarmupInput) { in.ZeroData = true }),
			`model_warmup "w": input "image": want exactly one of zero_data, random_data and input_data_file, got 2`,
		},
		{
			"warm-up file missing", warmupInput("image", func(in *edgewise.WarmupInput) { in.InputDataFile = "x" }),
			`model_warmup "w": input "image": input_data_file: there is no file "warmup/x" among the model's files`,
		},
		{
			"warm-up file outside", warmupInput("image", func(in *edgewise.WarmupInput) { in.InputDataFile = "../model.onnx" }),
			`model_warmup "w": input "image": input_data_file: file path "../model.onnx": want a clean path inside the model's folder`,
		},

		{
			"metric tag key", tags("a-b", "", 1),
			`metric_tags: key "a-b": want a letter or '_', then up to 63 letters, digits and '_'`,
		},
		{
			"metric tag value", tags("a", strings.Repeat("x", MaxTagValue+1), 1),
			`metric_tags: the value of "a" has 129 bytes, at most 128 are allowed`,
		},
		{"metric tags", tags("a", "", MaxMetricTags+1), "metric_tags: 17 tags, at most 16 are allowed"},
		{
			"graph level", func(m *edgewise.Model) { m.Optimization.Graph.Level = 3 },
			"optimization: graph: level: want -1 (basic), 0 (all), 1 (extended) or 2 (none), got 3",
		},
	}
	for _, tt := range tests {
		tt.run(t, nil)
	}
}

func TestValidateBoundsTheNumberOfWarmups(t *testing.T) {
	m := complete(t, validConfig, nil)
	for i := range MaxWarmups {
		w := m.ModelWarmup[0]
		w.Name = fmt.Sprint(i)
		m.ModelWarmup = append(m.ModelWarmup, w)
	}
	want := `model "cat": model_warmup: 65 requests, at most 64 are allowed`
	if err := Validate(m, validFiles, nil, testDefaults); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	m.ModelWarmup = m.ModelWarmup[1:]
	if err := Validate(m, validFiles, nil, testDefaults); err != nil {
		t.Errorf("at the bound: %v", err)
	}
}

func TestValidateCountsTheProblemsBeyondItsBound(t *testing.T) {
	m := complete(t, validConfig, nil)
	m.DynamicBatching.PreferredBatchSize = make([]int32, MaxProblems+7)
	err := Validate(m, validFiles, nil, testDefaults)
	if lines := strings.Split(err.Error(), "\n"); len(lines) != MaxProblems+1 || lines[MaxProblems] != "... and 7 more" {
		t.Errorf("got %d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestBackendParametersAreChecked(t *testing.T) {
	for key := range backendParameters {
		for value, ok := range map[string]bool{
			"0": true, "": false, "-1": false, "true": false, "1e3": false,
			"99999999999999999999": false,
		} {
			ok = ok && !strings.HasPrefix(key, "memory.") &&
				!slices.Contains([]string{
					"max_queue_delay", "isolation", "execution_profile", SwapParameter,
					"gpu_pipeline_slots", ResidencyParameter, "gpu_pictures", PrecisionParameter,
				}, key)
			m := complete(t, fmt.Sprintf(`parameters { key: %q value { string_value: %q } }`, key, value), validSignature)
			err := Validate(m, validFiles, nil, testDefaults)
			if (err == nil) != ok {
				t.Errorf("%s = %q: got %v", key, value, err)
			}
		}
	}
}

func TestBackendParametersHaveTheirBounds(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"intra_op_thread_count", "256", ""},
		{"intra_op_thread_count", "257", "parameters: intra_op_thread_count: want a number of threads from 0 to 256, " +
			"got \"257\""},
		{"execution_mode", "1", ""},
		{"execution_mode", "2", "parameters: execution_mode: want one of 0, 1, got \"2\""},
		{"session.dynamic_block_base", "1025", "parameters: session.dynamic_block_base: want a number from 0 to 1024, got " +
			"\"1025\""},
		{"memory.enable_memory_arena_shrinkage", "cpu:0", ""},
		{"memory.enable_memory_arena_shrinkage", "cpu:0;gpu:0", "parameters: memory.enable_memory_arena_shrinkage: want " +
			"devices such as \"cpu:0\", separated by ';', got \"cpu:0;gpu:0\""},
		{
			"session.optimized_model_external_initializers_file_name", "/etc/passwd",
			"parameters: \"session.optimized_model_external_initializers_file_name\" is not on the list of session " +
				"configuration entries that a model may set",
		},
		{"ep.context_file_path", "x", "parameters: \"ep.context_file_path\" is not on the list of session configuration " +
			"entries that a model may set"},
		{"execution_profile", "throughput", ""},
		{"execution_profile", "fast", "parameters: execution_profile: want one of adaptive, throughput, latency, got " +
			"\"fast\""},
		{MemoryParameter, "9223372036854775807", ""},
		{MemoryParameter, "9223372036854775808", "parameters: memory_bytes: want a number of bytes, got " +
			"\"9223372036854775808\""},
		{SwapParameter, "gap", ""},
		{SwapParameter, "never", "parameters: swap_without_room: want one of refuse, gap, got \"never\""},
		{"whatever", "x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			m := complete(t, fmt.Sprintf(`parameters { key: %q value { string_value: %q } }`, tt.key, tt.value), validSignature)
			err := Validate(m, validFiles, nil, testDefaults)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != `model "cat": `+tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWhatIsNotServedIsRefusedWithTheReason(t *testing.T) {
	tests := []struct{ config, want string }{
		{"sequence_batching { iterative_sequence: true }", "sequence_batching.iterative_sequence: a request has exactly " +
			"one response"},
		{`sequence_batching { state { input_name: "s" output_name: "t" data_type: TYPE_FP32 dims: [1] use_growable_memory: ` +
			`true } }`, "sequence_batching.state.use_growable_memory: there is no GPU memory to grow in; a state may have " +
			"another size with each request as it is"},
		{
			`output { name: "scores" data_type: TYPE_FP32 dims: [6] is_shape_tensor: true }`,
			"is_shape_tensor: only TensorRT models have shape tensors",
		},
		{
			`input { name: "image" data_type: TYPE_FP32 dims: [3, 1, 1] is_non_linear_format_io: true }`,
			"is_non_linear_format_io: only TensorRT models have such tensors",
		},
		{"model_transaction_policy { decoupled: true }", "model_transaction_policy.decoupled: models of platform " +
			"onnxruntime_onnx have exactly one response to a request"},
		{`model_operations { op_library_filename: "x.so" }`, "model_operations: libraries of custom operators are native " +
			"code from an upload, which this box never runs"},
		{`model_repository_agents { agents { name: "decrypt" } }`, "model_repository_agents: only the agent checksum is " +
			"served: others are native code"},
		{
			`model_metrics { metric_control { metric_identifier { family: "nv_cache" } histogram_options { buckets: 1 } } }`,
			"model_metrics: only buckets of nv_inference_first_response_histogram_ms can be chosen",
		},
		{`runtime: "x.so"`, "runtime: the box chooses the runtime library"},
		{`cc_model_filenames { key: "8.6" value: "model.onnx" }`, "cc_model_filenames: there is one file for every device"},
		{"instance_group { kind: KIND_MODEL }", "instance_group.kind: models of platform onnxruntime_onnx do not place " +
			"their own instances: use KIND_CPU or KIND_AUTO instead of KIND_MODEL"},
		{"instance_group { secondary_devices {} }", "instance_group.secondary_devices: there are no secondary devices"},
		{`instance_group { profile: "0" }`, "instance_group.profile: only TensorRT models have profiles"},
		{`instance_group { host_policy: "numa0" }`, "instance_group.host_policy: there are no host policies"},
		{
			`optimization { execution_accelerators { gpu_execution_accelerator { name: "migraphx" } } }`,
			"optimization.execution_accelerators.gpu_execution_accelerator: the accelerators on a GPU are cuda, tensorrt and webgpu",
		},
		{
			`optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }`,
			"optimization.execution_accelerators.cpu_execution_accelerator: the CPU runs models without accelerators: " +
				"openvino and others are not part of this box",
		},
	}
	crossed := map[string]bool{"platform": true} // by TestIdentifyRefuses
	for _, tt := range tests {
		t.Run(tt.config, func(t *testing.T) {
			m := complete(t, tt.config, validSignature)
			err := Validate(m, validFiles, nil, testDefaults)
			if err == nil || err.Error() != `model "cat": `+tt.want || edgewise.KindOf(err) != edgewise.Unsupported {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if got := unsupported(m, testFormats); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("Unsupported: got %q", got)
			}
		})
		field, _, _ := strings.Cut(tt.want, ":")
		crossed[field] = true
	}
	for _, f := range features {
		if !crossed[f.name] {
			t.Errorf("%s: no test asks for it", f.name)
		}
	}
}

func TestWhatADecoupledModelMayAskFor(t *testing.T) {
	formats := edgewise.Formats{{Platform: "stream", Answers: true}}
	m := &edgewise.Model{Platform: "stream", ModelTransactionPolicy: &edgewise.ModelTransactionPolicy{Decoupled: true}}
	if got := unsupported(m, formats); len(got) > 0 {
		t.Errorf("%q", got)
	}
	m.SequenceBatching = &edgewise.SequenceBatching{}
	if got := unsupported(m, formats); len(got) > 0 {
		t.Errorf("with sequences: %q", got)
	}
	m.ResponseCache, m.SequenceBatching.State = &edgewise.Switch{Enable: true}, []edgewise.SequenceState{{}}
	want := []string{
		"response_cache.enable: responses of a decoupled model are not cached",
		"sequence_batching.state: a decoupled model keeps its state itself",
	}
	if got := unsupported(m, formats); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func limits(resources ...edgewise.RateLimiterResource) func(*edgewise.Model) {
	return func(m *edgewise.Model) {
		m.InstanceGroup[0].RateLimiter = &edgewise.RateLimiter{Resources: resources}
	}
}

func manyResources() []edgewise.RateLimiterResource {
	var list []edgewise.RateLimiterResource
	for i := range MaxResources + 1 {
		list = append(list, edgewise.RateLimiterResource{Name: fmt.Sprint(i), Count: math.MaxInt32})
	}
	return list
}

func TestHintsAndSwitchesThatAreOffAreAccepted(t *testing.T) {
	m := complete(t, `response_cache { enable: false } model_transaction_policy { decoupled: false } model_operations {}
optimization { cuda { graphs: true graph_spec { batch_size: 1 }
} eager_batching: true input_pinned_memory { enable: false } priority: PRIORITY_MIN }
dynamic_batching { preferred_batch_size: [2, 4] max_queue_delay_microseconds: 100 preserve_ordering: true }`, validSignature)
	if err := Validate(m, validFiles, validSignature, testDefaults); err != nil {
		t.Error(err)
	}
	if m.Optimization.InputPinnedMemory.Enable || !m.Optimization.OutputPinnedMemory.Enable {
		t.Error("a written input_pinned_memory is replaced")
	}
}

func TestAPrecisionToleranceIsAPart(t *testing.T) {
	for value, ok := range map[string]bool{
		"off": true, "0.02": true, "1": true, "1e-3": true, "0": false, "1.01": false, "-0.1": false, "NaN": false, "Inf": false, "some": false,
	} {
		m := complete(t, fmt.Sprintf(`parameters { key: "precision_tolerance" value { string_value: %q } }`, value), validSignature)
		if err := Validate(m, validFiles, nil, testDefaults); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}
