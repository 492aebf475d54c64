package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// join returns the message that pieces make.
func join(pieces []Piece) (message []byte) {
	for _, p := range pieces {
		message = append(message, p.Bytes...)
	}
	return message
}

func TestEncodedAnswersAreReadByTheGeneratedCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resp, want := &edgewise.Response{Model: edgewise.ModelID{Name: "m", Version: 3}},
			&inference.ModelInferResponse{ModelName: "m", ModelVersion: "3"}
		resp.ID = rapid.String().Draw(t, "id")
		want.Id = resp.ID
		borrowed := 0
		for range rapid.IntRange(0, 4).Draw(t, "outputs") {
			name, n := rapid.String().Draw(t, "name"),
				rapid.SampledFrom([]int{0, 1, 100, CopyBelow - 1, CopyBelow, 70_000}).Draw(t, "bytes")
			data := make([]byte, n)
			if n >= CopyBelow {
				borrowed++
			}
			resp.Outputs = append(resp.Outputs, edgewise.Tensor{
				Name: name, Type: edgewise.Uint8,
				Shape: edgewise.Shape{1, int64(n)}, Data: data,
			})
			want.Outputs = append(want.Outputs, &inference.ModelInferResponse_InferOutputTensor{
				Name: name, Datatype: "UINT8",
				Shape: []int64{1, int64(n)},
			})
			want.RawOutputContents = append(want.RawOutputContents, data)
		}
		if rapid.Bool().Draw(t, "with parameters") {
			resp.Parameters = map[string]any{"b": true, "i": int64(-7), "s": "text", "d": 0.5}
			want.Parameters = map[string]*inference.InferParameter{
				"b": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}},
				"i": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: -7}},
				"s": {ParameterChoice: &inference.InferParameter_StringParam{StringParam: "text"}},
				"d": {ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: 0.5}},
			}
		}
		for _, stream := range []bool{false, true} {
			pieces, err := Encode(resp, Form{Stream: stream})
			if err != nil {
				t.Fatal(err)
			}
			var whole proto.Message = want
			got := want.ProtoReflect().New().Interface()
			if stream {
				whole, got = &inference.ModelStreamInferResponse{InferResponse: want}, &inference.ModelStreamInferResponse{}
			}
			if err := proto.Unmarshal(join(pieces), got); err != nil || !proto.Equal(got, whole) {
				t.Fatalf("got %v, %v; want %v", got, err, whole)
			}
			handed := 0
			for _, p := range pieces {
				if p.Borrowed {
					handed++
				}
			}
			if handed != borrowed {
				t.Fatalf("%d outputs were handed over, %d are large", handed, borrowed)
			}
		}
	})
}

func TestLargeOutputsAreNotCopied(t *testing.T) {
	data := make([]byte, CopyBelow)
	resp := &edgewise.Response{Outputs: []edgewise.Tensor{
		{Name: "y", Type: edgewise.Uint8, Shape: edgewise.Shape{CopyBelow}, Data: data},
	}}
	pieces, err := Encode(resp, Form{})
	if err != nil || len(pieces) != 2 || !pieces[1].Borrowed || &pieces[1].Bytes[0] != &data[0] {
		t.Errorf("got %d pieces, %v", len(pieces), err)
	}
}

func TestOutputsThatAreNotWellFormed(t *testing.T) {
	for _, resp := range []*edgewise.Response{
		{Outputs: []edgewise.Tensor{{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{2}, Data: []byte{1}}}},
		{Parameters: map[string]any{"x": []int{1}}},
	} {
		if _, err := Encode(resp, Form{}); err == nil || edgewise.KindOf(err) != edgewise.Internal {
			t.Errorf("%v: got %v", resp, err)
		}
	}
}
