package modelconfig

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

var update = flag.Bool("update", false, "write testdata/*/want.json")

var testFormats = edgewise.Formats{
	{
		Platform: "onnxruntime_onnx", Backend: "onnxruntime", File: "model.onnx",
		Devices: []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU},
	},
	{Platform: "wasm", Backend: "wasm", File: "model.wasm", Devices: []edgewise.DeviceKind{edgewise.CPU}, Guest: true},
	{Platform: "ensemble", Devices: []edgewise.DeviceKind{edgewise.CPU}},
}

var testDefaults = Defaults{Formats: testFormats, MaxBatchSize: 4, InstanceCount: 1}

func info(name string, t edgewise.DataType, shape ...int64) edgewise.TensorInfo {
	return edgewise.TensorInfo{Name: name, Type: t, Datatype: t.String(), Shape: append(edgewise.Shape{}, shape...)}
}

func optional(i edgewise.TensorInfo) edgewise.TensorInfo {
	i.Optional = true
	return i
}

func signature(inputs, outputs []edgewise.TensorInfo) *edgewise.Inspection {
	return &edgewise.Inspection{Inputs: inputs, Outputs: outputs}
}

var classifier = signature(
	[]edgewise.TensorInfo{info("image", edgewise.FP32, -1, 3, 224, 224), optional(info("bias", edgewise.FP32, 1000))},
	[]edgewise.TensorInfo{info("scores", edgewise.FP32, -1, 1000)},
)

func TestCompletedConfigurationsAreAsRecorded(t *testing.T) {
	scalars := signature([]edgewise.TensorInfo{info("x", edgewise.Int64, -1), info("s", edgewise.Bytes, -1, -1)},
		[]edgewise.TensorInfo{info("y", edgewise.BF16, -1)})
	tests := []struct {
		name  string
		files []string
		ins   *edgewise.Inspection
	}{
		{"minimal", []string{"model.onnx"}, classifier},
		{"image", []string{"config.pbtxt", "labels.txt", "model.onnx"}, classifier},
		{"scalar", []string{"config.json", "model.onnx/model.onnx", "model.onnx/weights"}, scalars},
		{"repository", []string{"model.onnx"}, classifier},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Read(filepath.Join("testdata", tt.name), "cat")
			if err != nil {
				t.Fatal(err)
			}
			m, err = Complete(m, "cat", tt.files, tt.ins, testDefaults)
			if err != nil {
				t.Fatal(err)
			}
			if err := Validate(m, tt.files, tt.ins, testDefaults); err != nil {
				t.Error(err)
			}
			compare(t, filepath.Join("testdata", tt.name, "want.json"), m)
		})
	}
}

func compare(t *testing.T, file string, m *edgewise.Model) {
	t.Helper()
	got, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if bytes.Contains(got, []byte("null")) {
		t.Errorf("a list or a map is null in %s", got)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestACompletedModelReadsAsItself(t *testing.T) {
	for _, name := range []string{"minimal", "image", "scalar", "repository"} {
		text, err := os.ReadFile(filepath.Join("testdata", name, "want.json"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse("config.json", text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Complete(m, "cat", []string{"model.onnx"}, nil, Defaults{Formats: testFormats})
		if err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Join("testdata", name, "want.json"), again)
	}
}

func TestCompleteLeavesTheDeclaredModelAsItIs(t *testing.T) {
	m, err := Read("testdata/image", "cat")
	if err != nil {
		t.Fatal(err)
	}
	before := Clone(m)
	if _, err := Complete(m, "cat", []string{"model.onnx"}, classifier, testDefaults); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, Clone(m)); diff != "" {
		t.Error(diff)
	}
}

func TestMaxBatchSizeIsCompletedFromTheSignature(t *testing.T) {
	in, out := info("x", edgewise.FP32, -1, 2), info("y", edgewise.FP32, -1, 2)
	fixed, scalar := info("y", edgewise.FP32, 1, 2), info("y", edgewise.FP32)
	tests := []struct {
		name    string
		config  string
		in, out edgewise.TensorInfo
		want    int32
		dynamic bool
	}{
		{"not written and possible", "", in, out, 4, true},
		{"written as 0", "max_batch_size: 0", in, out, 0, false},
		{"written as 1", "max_batch_size: 1", in, out, 1, false},
		{"written as 2", "max_batch_size: 2", in, out, 2, true},
		{"fixed first dimension", "", in, fixed, 0, false},
		{"scalar output", "", in, scalar, 0, false},
		{
			"inputs and outputs declared",
			`input { name: "x" data_type: TYPE_FP32 dims: [-1, 2] } output { name: "y" data_type: TYPE_FP32 dims: [-1, 2] }`, in,
			out, 0, false,
		},
		{
			"inputs and outputs declared, with batches",
			`max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }`,
			in, out, 8, false,
		},
		{"inputs declared", `input { name: "x" data_type: TYPE_FP32 dims: [2] }`, in, out, 4, true},
		{"outputs declared", `output { name: "y" data_type: TYPE_FP32 dims: [2] }`, in, out, 4, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse("config.pbtxt", []byte(tt.config))
			if err != nil {
				t.Fatal(err)
			}
			ins := signature([]edgewise.TensorInfo{tt.in}, []edgewise.TensorInfo{tt.out})
			m, err = Complete(m, "cat", []string{"model.onnx"}, ins, testDefaults)
			if err != nil {
				t.Fatal(err)
			}
			if m.MaxBatchSize != tt.want || (m.DynamicBatching != nil) != tt.dynamic {
				t.Errorf("got max_batch_size %d, dynamic_batching %v, want %d, %v", m.MaxBatchSize, m.DynamicBatching != nil,
					tt.want, tt.dynamic)
			}
			if err := Validate(m, []string{"model.onnx"}, ins, testDefaults); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASequenceSchedulerKeepsDynamicBatchingOut(t *testing.T) {
	m, err := Parse("config.pbtxt", []byte("sequence_batching { oldest { max_candidate_sequences: 2 } }"))
	if err != nil {
		t.Fatal(err)
	}
	m, err = Complete(m, "cat", []string{"model.onnx"}, classifier, testDefaults)
	if err != nil || m.DynamicBatching != nil || m.SequenceBatching.MaxSequenceIdle != 1_000_000 ||
		m.SequenceBatching.Oldest.PreferredBatchSize[0] != 4 {
		t.Errorf("got %+v, %v", m.SequenceBatching, err)
	}
}

func TestCompleteRefusesBatchesTheModelHasNoPlaceFor(t *testing.T) {
	in, out := info("x", edgewise.FP32, -1, 2), info("y", edgewise.FP32, -1)
	tests := []struct {
		name    string
		in, out edgewise.TensorInfo
		want    string
	}{
		{
			"input", info("x", edgewise.FP32, 1, 2), out,
			`model "cat": max_batch_size is 8, but input "x" has the shape [1,2] in the model, without a variable first ` +
				`dimension: set max_batch_size to 0`,
		},
		{
			"output", in, info("y", edgewise.FP32),
			`model "cat": max_batch_size is 8, but output "y" has the shape [] in the model, without a variable first ` +
				`dimension: set max_batch_size to 0`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ins := signature([]edgewise.TensorInfo{tt.in}, []edgewise.TensorInfo{tt.out})
			_, err := Complete(&edgewise.Model{MaxBatchSize: 8}, "cat", []string{"model.onnx"}, ins, testDefaults)
			if err == nil || err.Error() != tt.want || edgewise.KindOf(err) != edgewise.Invalid {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestInstanceGroupsAreCompleted(t *testing.T) {
	m := &edgewise.Model{InstanceGroup: []edgewise.InstanceGroup{
		{},
		{Name: "own", Count: 3, Kind: edgewise.KindCPU},
		{GPUs: []int32{0}},
	}}
	m, err := Complete(m, "cat", []string{"model.onnx"}, nil, Defaults{Formats: testFormats, InstanceCount: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := Clone(&edgewise.Model{InstanceGroup: []edgewise.InstanceGroup{
		{Name: "cat_0", Count: 2, Kind: edgewise.KindAuto},
		{Name: "own", Count: 3, Kind: edgewise.KindCPU},
		{Name: "cat_2", Count: 1, Kind: edgewise.KindGPU, GPUs: []int32{0}},
	}}).InstanceGroup
	if diff := cmp.Diff(want, m.InstanceGroup); diff != "" {
		t.Error(diff)
	}
}

func TestGroupsThatLeaveTheKindOpenStayOpen(t *testing.T) {
	groups := []edgewise.InstanceGroup{{}, {Kind: edgewise.KindAuto, Count: 3}, {Kind: edgewise.KindCPU}}
	d := Defaults{Formats: testFormats, InstanceCount: 2}
	for file, want := range map[string][]edgewise.InstanceKind{
		"model.onnx": {edgewise.KindAuto, edgewise.KindAuto, edgewise.KindCPU},
		"model.wasm": {edgewise.KindCPU, edgewise.KindCPU, edgewise.KindCPU},
	} {
		declared := &edgewise.Model{InstanceGroup: slices.Clone(groups)}
		m, err := Complete(declared, "cat", []string{file}, nil, d)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range m.InstanceGroup {
			if g.Kind != want[i] {
				t.Errorf("%s: group %d is %s, want %s", file, i, g.Kind, want[i])
			}
		}
		for on, want := range map[edgewise.DeviceKind][]int32{edgewise.CPU: {2, 3, 2}, edgewise.GPU: {1, 3, 2}} {
			if file == "model.wasm" {
				want = []int32{2, 3, 2}
			}
			for i, g := range Placed(m, declared, on, d).InstanceGroup {
				if g.Count != want[i] || m.InstanceGroup[i].Count != []int32{2, 3, 2}[i] {
					t.Errorf("%s on %v: group %d has %d instances, want %d", file, on, i, g.Count, want[i])
				}
			}
		}
	}
}

func TestTheLatencyProfileHasOneInstance(t *testing.T) {
	m := &edgewise.Model{Parameters: map[string]edgewise.ModelParam{
		"execution_profile": {StringValue: "latency"},
	}}
	m, err := Complete(m, "cat", []string{"model.onnx"}, nil, Defaults{Formats: testFormats, InstanceCount: 8})
	if err != nil || m.InstanceGroup[0].Count != 1 {
		t.Errorf("got %+v, %v", m.InstanceGroup, err)
	}
}

func TestCompletedInstancesStayWithinTheirBound(t *testing.T) {
	m := &edgewise.Model{InstanceGroup: make([]edgewise.InstanceGroup, 3)}
	m, err := Complete(m, "cat", []string{"model.onnx"}, nil, Defaults{Formats: testFormats, InstanceCount: 100})
	if err != nil || m.InstanceGroup[0].Count != 21 {
		t.Errorf("got %+v, %v", m.InstanceGroup, err)
	}
}

func TestIdentifyFindsTheModelFile(t *testing.T) {
	onnx := []string{"onnxruntime_onnx", "onnxruntime", "model.onnx"}
	tests := []struct {
		name  string
		m     edgewise.Model
		files []string
		want  []string
	}{
		{"by its name", edgewise.Model{}, []string{"config.pbtxt", "model.onnx"}, onnx},
		{
			"by its end",
			edgewise.Model{},
			[]string{"net.onnx", "net.onnx.data"},
			[]string{"onnxruntime_onnx", "onnxruntime", "net.onnx"},
		},
		{"as a folder", edgewise.Model{}, []string{"model.onnx/model.onnx"}, onnx},
		{"by the platform", edgewise.Model{Platform: "onnxruntime_onnx"}, []string{"model.onnx"}, onnx},
		{"by the backend", edgewise.Model{Backend: "onnxruntime"}, []string{"model.onnx"}, onnx},
		{"by both", edgewise.Model{Platform: "onnxruntime_onnx", Backend: "onnxruntime"}, []string{"model.onnx"}, onnx},
		{
			"by the declared file",
			edgewise.Model{DefaultModelFilename: "net.onnx"},
			[]string{"model.wasm", "net.onnx"},
			[]string{"onnxruntime_onnx", "onnxruntime", "net.onnx"},
		},
		{
			"declared without extension",
			edgewise.Model{Backend: "onnxruntime", DefaultModelFilename: "net"},
			[]string{"net"},
			[]string{"onnxruntime_onnx", "onnxruntime", "net"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Identify(&tt.m, "cat", tt.files, testDefaults)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, []string{m.Platform, m.Backend, m.DefaultModelFilename}); diff != "" ||
				m.Name != "cat" {
				t.Errorf("name %q %s", m.Name, diff)
			}
		})
	}
}

func TestIdentifyRefuses(t *testing.T) {
	tests := []struct {
		name  string
		m     edgewise.Model
		files []string
		kind  edgewise.Kind
		want  string
	}{
		{
			"another name",
			edgewise.Model{Name: "dog"},
			[]string{"model.onnx"},
			edgewise.Invalid,
			`model "cat": the configuration says name "dog": leave it out or write "cat"`,
		},
		{
			"no model file",
			edgewise.Model{},
			[]string{"net.pt", "nets/net.onnx"},
			edgewise.Invalid,
			`model "cat": there is no model file: want model.onnx or model.wasm, or default_model_filename in the ` +
				`configuration (files: net.pt, nets/net.onnx)`,
		},
		{
			"several model files",
			edgewise.Model{},
			[]string{"a.onnx", "b.onnx", "c"},
			edgewise.Invalid,
			`model "cat": there are several model files: name one as default_model_filename in the configuration (files: a.onnx, b.onnx)`,
		},
		{
			"declared file missing",
			edgewise.Model{DefaultModelFilename: "net.onnx"},
			nil, edgewise.Invalid,
			`model "cat": there is no file "net.onnx", the model itself`,
		},
		{
			"many files",
			edgewise.Model{},
			make([]string, 17), edgewise.Invalid,
			`model "cat": there is no model file: want model.onnx or model.wasm, or default_model_filename in the ` +
				`configuration (files: , , , , , , , , , , , , , , , , ...)`,
		},
		{
			"unknown platform",
			edgewise.Model{Platform: "tensorrt_plan"},
			[]string{"model.plan"},
			edgewise.Unsupported,
			`model "cat": platform "tensorrt_plan" is not served by this box, which has onnxruntime_onnx, wasm`,
		},
		{
			"unknown backend",
			edgewise.Model{Backend: "python"},
			[]string{"model.onnx"},
			edgewise.Unsupported,
			`model "cat": backend "python" is not served by this box, which has onnxruntime, wasm`,
		},
		{
			"contradiction",
			edgewise.Model{Platform: "onnxruntime_onnx", Backend: "python"},
			[]string{"model.onnx"},
			edgewise.Unsupported,
			`model "cat": platform "onnxruntime_onnx" with backend "python" is not served by this box, which has ` +
				`onnxruntime_onnx with onnxruntime, wasm with wasm`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Identify(&tt.m, "cat", tt.files, testDefaults)
			if err == nil || err.Error() != tt.want || edgewise.KindOf(err) != tt.kind {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestDimsOfOneStandForAScalar(t *testing.T) {
	tests := []struct {
		name     string
		maxBatch int32
		shape    edgewise.Shape
		dims     edgewise.Shape
		want     bool
	}{
		{"scalar", 0, edgewise.Shape{}, edgewise.Shape{1}, true},
		{"one number for each element of the batch", 8, edgewise.Shape{-1}, edgewise.Shape{1}, true},
		{"a vector of one", 0, edgewise.Shape{1}, edgewise.Shape{1}, false},
		{"a matrix", 8, edgewise.Shape{-1, 1}, edgewise.Shape{1}, false},
		{"other dims", 0, edgewise.Shape{}, edgewise.Shape{2}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ins := &edgewise.Inspection{
				Inputs:  []edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32, Shape: test.shape}},
				Outputs: []edgewise.TensorInfo{{Name: "y", Type: edgewise.FP32, Shape: test.shape}},
			}
			declared := &edgewise.Model{
				MaxBatchSize: test.maxBatch,
				Input:        []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: test.dims}},
				Output:       []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: test.dims}},
			}
			m, err := Complete(declared, "m", []string{"model.onnx"}, ins, Defaults{Formats: testFormats})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*edgewise.Reshape{m.Input[0].Reshape, m.Output[0].Reshape} {
				if got := r != nil && len(r.Shape) == 0; got != test.want {
					t.Errorf("reshape %v, want one to a scalar: %v", r, test.want)
				}
			}
		})
	}
}

// TestEmptyDims are for tensors that have no dimensions in the model but the batch.
func TestEmptyDims(t *testing.T) {
	for _, test := range []struct {
		name     string
		maxBatch int32
		shape    edgewise.Shape // in the model
		ok       bool
	}{
		{"no dimensions", 0, edgewise.Shape{}, true},
		{"none but the batch", 8, edgewise.Shape{-1}, true},
		{"one", 0, edgewise.Shape{-1}, false},
		{"one beside the batch", 8, edgewise.Shape{-1, 1}, false},
		{"not known", 0, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			tensors := []edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32, Shape: test.shape}}
			ins := &edgewise.Inspection{Inputs: tensors, Outputs: []edgewise.TensorInfo{
				{Name: "y", Type: edgewise.FP32, Shape: test.shape},
			}}
			declared := &edgewise.Model{
				MaxBatchSize: test.maxBatch,
				Input:        []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32}},
				Output:       []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32}},
			}
			m, err := Complete(declared, "m", []string{"model.onnx"}, ins, Defaults{Formats: testFormats})
			if err == nil {
				err = Validate(m, []string{"model.onnx"}, ins, testDefaults)
			}
			if (err == nil) != test.ok {
				t.Error(err)
			}
		})
	}
}

// TestDimensionsOfSizeZero are what some models have.
func TestDimensionsOfSizeZero(t *testing.T) {
	ins := signature([]edgewise.TensorInfo{info("x", edgewise.FP32, 0, 3)},
		[]edgewise.TensorInfo{info("y", edgewise.FP32, 0)})
	m, err := Complete(&edgewise.Model{MaxBatchSize: Unset}, "m", []string{"model.onnx"}, ins, Defaults{Formats: testFormats})
	if err == nil {
		err = Validate(m, []string{"model.onnx"}, ins, testDefaults)
	}
	if err != nil || !m.Input[0].Dims.Equal(edgewise.Shape{0, 3}) || !m.Output[0].Dims.Equal(edgewise.Shape{0}) {
		t.Errorf("inputs %+v, outputs %+v: %v", m.Input, m.Output, err)
	}
}

func TestInputsWithoutAShapeMustBeDeclared(t *testing.T) {
	ins := &edgewise.Inspection{
		Inputs:  []edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32}},
		Outputs: []edgewise.TensorInfo{{Name: "y", Type: edgewise.FP32}},
	}
	files := []string{"model.onnx"}
	_, err := Complete(&edgewise.Model{MaxBatchSize: Unset}, "m", files, ins, Defaults{Formats: testFormats})
	want := `model "m": input "x" has no shape in the model: declare all inputs and outputs with their dims`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	ins.Inputs[0].Shape = edgewise.Shape{-1}
	m, err := Complete(&edgewise.Model{MaxBatchSize: Unset}, "m", files, ins, Defaults{Formats: testFormats, MaxBatchSize: 4})
	if err == nil {
		err = Validate(m, files, ins, testDefaults)
	}
	if err != nil || m.MaxBatchSize != 0 || !m.Output[0].Dims.Equal(edgewise.Shape{-1}) || m.Output[0].Reshape != nil {
		t.Errorf("an output without a shape: %+v, %v", m, err)
	}
	declared := &edgewise.Model{
		Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{1}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 4}}},
	}
	m, err = Complete(declared, "m", files, ins, Defaults{Formats: testFormats})
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(m, files, ins, testDefaults); err != nil || m.Output[0].Reshape != nil {
		t.Errorf("a declared output: %v, reshape %v", err, m.Output[0].Reshape)
	}
}

func TestOptionalInputsOfAStepStayOptional(t *testing.T) {
	ins := signature([]edgewise.TensorInfo{info("x", edgewise.FP32, 1, -1), optional(info("map", edgewise.FP32, 1, 6))},
		[]edgewise.TensorInfo{info("y", edgewise.FP32, -1)})
	m, err := Complete(&edgewise.Model{MaxBatchSize: Unset}, "cat", []string{"model.wasm"}, ins, testDefaults)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Input) != 2 || m.Input[0].Optional || !m.Input[1].Optional {
		t.Errorf("inputs %+v: want x, and map optional", m.Input)
	}
	if err := Validate(m, []string{"model.wasm"}, ins, testDefaults); err != nil {
		t.Error(err)
	}
}
