package onnxfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/google/go-cmp/cmp"
)

func TestInspectionJSON(t *testing.T) {
	got, err := json.MarshalIndent(readModel(t, crowded()).Inspection, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "inspection.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("inspection (-want +got):\n%s", diff)
	}
}

func TestReadKeepsTheGraph(t *testing.T) {
	f := readModel(t, onnxgen.Slow(1))
	body := &onnxfile.Graph{
		Name: "body", Inputs: []string{"trip", "again", "state"}, Outputs: []string{"on", "next"},
		Nodes: []onnxfile.Node{
			{Op: "Identity", Domain: "ai.onnx", Inputs: []string{"again"}, Outputs: []string{"on"}},
			{Op: "MatMul", Domain: "ai.onnx", Inputs: []string{"state", "even"}, Outputs: []string{"next"}},
		},
	}
	want := onnxfile.Node{
		Op: "Loop", Domain: "ai.onnx", Inputs: []string{"trips", "", "start"}, Outputs: []string{"end"},
		Graphs: []*onnxfile.Graph{body},
	}
	if diff := cmp.Diff(want, f.Graph.Nodes[2]); diff != "" {
		t.Errorf("loop (-want +got):\n%s", diff)
	}
	even := onnxfile.Initializer{Name: "even", Type: "float", Shape: edgewise.Shape{256, 256}, Bytes: 256 * 256 * 4}
	if diff := cmp.Diff(even, f.Graph.Initializers[0]); diff != "" {
		t.Errorf("initializer (-want +got):\n%s", diff)
	}
}

func TestReadSignature(t *testing.T) {
	bias := edgewise.TensorInfo{
		Name: "bias", Type: edgewise.FP32, Datatype: "FP32", Shape: edgewise.Shape{4},
		Optional: true,
	}
	x := edgewise.TensorInfo{
		Name: "x", Type: edgewise.FP32, Datatype: "FP32", Shape: edgewise.Shape{-1, 4},
		Dims: []string{"batch", ""},
	}
	old := onnxgen.OptionalInput()
	old.IR = 3
	unranked := onnxgen.Scalar()
	unranked.Graph.Inputs[0] = onnxgen.Value{Name: "x", Extra: message().Nested(2,
		message().Nested(1, message().Int(1, 1)))}
	minus := onnxgen.Scalar()
	minus.Graph.Inputs[0].Extra = nil
	minus.Graph.Inputs[0] = onnxgen.Value{
		Name: "x",
		Extra: message().Nested(2, message().Nested(1,
			message().Int(1, 1).Nested(2, message().Nested(1, message().Int(1, -1))))),
	}
	for _, c := range []struct {
		name  string
		model *onnxgen.Model
		want  []edgewise.TensorInfo
	}{
		{"input with a default is optional", onnxgen.OptionalInput(), []edgewise.TensorInfo{x, bias}},
		{"before IR version 4 it is no input at all", old, []edgewise.TensorInfo{x}},
		{
			"scalar has no dimensions", onnxgen.Scalar(),
			[]edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32, Datatype: "FP32", Shape: edgewise.Shape{}}},
		},
		{"unknown rank has no shape", unranked, []edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32, Datatype: "FP32"}}},
		{
			"size -1 is any size", minus,
			[]edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32, Datatype: "FP32", Shape: edgewise.Shape{-1}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, readModel(t, c.model).Inputs); diff != "" {
				t.Errorf("inputs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadMapsEveryDataType(t *testing.T) {
	for _, dt := range edgewise.DataTypes() {
		f := readModel(t, onnxgen.Identity(dt, onnxgen.Batch(3)...))
		if f.Inputs[0].Type != dt || f.Outputs[0].Type != dt {
			t.Errorf("%v came back as input %v, output %v", dt, f.Inputs[0].Type, f.Outputs[0].Type)
		}
	}
}

func TestReadAcceptsAnyWayToStoreElements(t *testing.T) {
	tensor := func(t onnxgen.Type, dims []int64, m *onnxgen.Message) onnxgen.Tensor {
		return onnxgen.Tensor{Name: "w", Type: t, Dims: dims, Extra: m}
	}
	for _, c := range []struct {
		name   string
		tensor onnxgen.Tensor
		bytes  int64
	}{
		{"raw", onnxgen.Floats("w", []int64{2}, 1, 2), 8},
		{"floats one by one", tensor(onnxgen.Float, []int64{2}, message().Float(4, 1).Float(4, 2)), 8},
		{"floats packed", tensor(onnxgen.Float, []int64{2}, message().Bytes(4, make([]byte, 8))), 8},
		{"complex as pairs of floats", tensor(onnxgen.Complex, []int64{1}, message().Bytes(4, make([]byte, 8))), 8},
		{"doubles packed", tensor(onnxgen.Double, []int64{2}, message().Bytes(10, make([]byte, 16))), 16},
		{"int64 packed", tensor(onnxgen.Int64, []int64{3}, message().Packed(7, 1, -1, 300)), 24},
		{"int64 one by one", tensor(onnxgen.Int64, []int64{2}, message().Int(7, 1).Int(7, -1)), 16},
		{"bytes as int32", tensor(onnxgen.Uint8, []int64{2}, message().Packed(5, 1, 255)), 2},
		{"halves as int32", tensor(onnxgen.Float16, []int64{2}, message().Packed(5, 1, 65535)), 4},
		{"int4 two to an int32", tensor(onnxgen.Int4, []int64{3}, message().Packed(5, 1, 2)), 2},
		{"int4 raw", onnxgen.Tensor{Name: "w", Type: onnxgen.Int4, Dims: []int64{3}, Data: make([]byte, 2)}, 2},
		{"uint32 as uint64", tensor(onnxgen.Uint32, []int64{2}, message().Packed(11, 1, 2)), 8},
		{"strings", tensor(onnxgen.String, []int64{2}, message().String(6, "abc").String(6, "")), 3},
		{"no elements", tensor(onnxgen.Float, []int64{0, 5}, nil), 0},
		{"dimensions packed", tensor(onnxgen.Float, nil, message().Packed(1, 2, 1).Bytes(9, make([]byte, 8))), 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := onnxgen.Scalar()
			m.Graph.Initializers = append(m.Graph.Initializers, c.tensor)
			if got := readModel(t, m).Graph.Initializers[1].Bytes; got != c.bytes {
				t.Errorf("%d bytes, want %d", got, c.bytes)
			}
		})
	}
}

func TestReadCountsConstantsAsParameters(t *testing.T) {
	m := onnxgen.Scalar()
	m.Graph.Nodes = append(m.Graph.Nodes, onnxgen.Node{Op: "Constant", Out: []string{"c"}, Attributes: []onnxgen.Attribute{
		onnxgen.TensorAttribute("value", onnxgen.Floats("", []int64{3}, 1, 2, 3)),
	}})
	f := readModel(t, m)
	if f.Parameters != 4 || f.ParameterBytes != 16 {
		t.Errorf("%d parameters of %d bytes, want 4 of 16", f.Parameters, f.ParameterBytes)
	}
}

func TestReadAcceptsUnusedImportsAndSkipsUnknownFields(t *testing.T) {
	m := onnxgen.Scalar()
	m.Opsets = []onnxgen.Opset{
		{Version: 13},
		{Domain: "ai.onnx", Version: 13},
		{Domain: "ai.onnx.preview.training", Version: 1},
	}
	m.Graph.Nodes[0].Extra = message().Int(900, 1).Bytes(901, []byte("later")).Float(902, 1)
	want := map[string]int64{"ai.onnx": 13, "ai.onnx.preview.training": 1}
	if diff := cmp.Diff(want, readModel(t, m).Opsets); diff != "" {
		t.Errorf("opsets (-want +got):\n%s", diff)
	}
}

func TestReadDoesNotDependOnTheOrderOfFields(t *testing.T) {
	g := onnxgen.Scalar().Graph
	dir := folderWith(t, message().Nested(8, message().Int(2, 13)).Nested(7, g.Message()).Int(1, 8).Encoded())
	if _, err := onnxfile.Read(dir, modelFile, onnxfile.DefaultLimits()); err != nil {
		t.Error(err)
	}
}
