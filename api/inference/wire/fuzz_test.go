package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// FuzzParse holds Parse against the generated code: what it accepts the generated code accepts too, and reads the same
// names, shapes and bytes out of it; and what the generated code refuses it refuses.
func FuzzParse(f *testing.F) {
	for _, req := range seeds() {
		b, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	// packed or not
	f.Add([]byte("\x0a\x01m\x2a\x18\x0a\x01x\x12\x05INT32\x18\x01\x18\x02\x2a\x08\x10\x01\x12\x01\x02\x50\x07"))
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := Parse(message, nil, kserve.Limits{MaxDecoded: 1 << 16})
		if got == nil {
			t.Fatal("no request")
		}
		var want inference.ModelInferRequest
		bad := proto.Unmarshal(message, &want)
		if err != nil {
			return
		}
		if bad != nil {
			t.Fatalf("accepted what is malformed: %v", bad)
		}
		compare(t, got, &want)
	})
}

func seeds() []*inference.ModelInferRequest {
	type in = inference.ModelInferRequest_InferInputTensor
	contents := map[string]*inference.InferTensorContents{
		"BOOL": {BoolContents: []bool{true}}, "INT8": {IntContents: []int32{-1}}, "INT64": {Int64Contents: []int64{-1}},
		"UINT16": {UintContents: []uint32{9}},
		"UINT64": {Uint64Contents: []uint64{9}}, "FP32": {Fp32Contents: []float32{1}}, "FP64": {Fp64Contents: []float64{1}},
		"BYTES": {BytesContents: [][]byte{[]byte("a")}},
	}
	var list []*inference.ModelInferRequest
	for datatype, c := range contents {
		list = append(list, &inference.ModelInferRequest{
			ModelName: "m", ModelVersion: "1",
			Inputs: []*in{{Name: "x", Datatype: datatype, Shape: []int64{1}, Contents: c}},
		})
	}
	return append(list, &inference.ModelInferRequest{
		ModelName: "m", Id: "i", Inputs: []*in{
			{Name: "x", Datatype: "FP16", Shape: []int64{2, -1}},
			{Name: "z", Datatype: "BYTES"},
		},
		Parameters: map[string]*inference.InferParameter{
			"priority": {ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: 1}},
			"s":        {ParameterChoice: &inference.InferParameter_StringParam{StringParam: "x"}},
		},
		Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{
			{Name: "y", Parameters: map[string]*inference.InferParameter{
				"classification": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 1}},
			}},
		},
		RawInputContents: [][]byte{{1, 2, 3, 4}, {}},
	})
}

func compare(t *testing.T, got *Request, want *inference.ModelInferRequest) {
	t.Helper()
	if got.ID != want.Id || got.Model.Name != want.ModelName || len(got.Inputs) != len(want.Inputs) ||
		len(got.Outputs) != len(want.Outputs) ||
		len(got.Shared) != len(got.Inputs) || len(got.Answers) != len(got.Outputs) {
		t.Fatalf("got %+v, want %v", got, want)
	}
	for i, name := range got.Outputs {
		if name != want.Outputs[i].Name {
			t.Fatalf("output %d is %q, want %q", i, name, want.Outputs[i].Name)
		}
	}
	raw := want.RawInputContents
	for i, in := range got.Inputs {
		w := want.Inputs[i]
		if in.Name != w.Name || in.Type.String() != w.Datatype || !slices.Equal([]int64(in.Shape), w.Shape) {
			t.Fatalf("input %d is %+v, want %v", i, in, w)
		}
		data := elements(in.Type, w.Contents)
		switch {
		case got.Shared[i].Set():
			data = nil
		case len(want.RawInputContents) > 0:
			data, raw = raw[0], raw[1:]
		}
		if !bytes.Equal(in.Data, data) {
			t.Fatalf("input %d is %x, want %x", i, in.Data, data)
		}
	}
}

// elements makes a tensor of typed contents, one element after the other.
func elements(t edgewise.DataType, c *inference.InferTensorContents) (b []byte) {
	le := binary.LittleEndian
	for _, v := range c.GetBoolContents() {
		b = append(b, map[bool]byte{true: 1}[v])
	}
	for _, v := range c.GetIntContents() {
		b = append(b, le.AppendUint32(nil, uint32(v))[:t.Size()]...)
	}
	for _, v := range c.GetUintContents() {
		b = append(b, le.AppendUint32(nil, v)[:t.Size()]...)
	}
	for _, v := range c.GetInt64Contents() {
		b = le.AppendUint64(b, uint64(v))
	}
	for _, v := range c.GetUint64Contents() {
		b = le.AppendUint64(b, v)
	}
	for _, v := range c.GetFp32Contents() {
		b = le.AppendUint32(b, math.Float32bits(v))
	}
	for _, v := range c.GetFp64Contents() {
		b = le.AppendUint64(b, math.Float64bits(v))
	}
	for _, v := range c.GetBytesContents() {
		b = edgewise.AppendElement(b, string(v))
	}
	return b
}
