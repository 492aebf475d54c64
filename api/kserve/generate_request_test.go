package kserve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

// TestAGenerateRequestIsReadAsItWasWritten writes and reads one with inputs, a sequence and parameters.
func TestAGenerateRequestIsReadAsItWasWritten(t *testing.T) {
	m := &edgewise.Model{Name: "m", Input: []edgewise.ModelInput{
		{Name: "x", DataType: edgewise.Int32, Dims: edgewise.Shape{-1, 2}}, {Name: "text", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}},
	}}
	shapes := map[string]edgewise.Shape{"x": {-1, 2}, "text": {1}}
	req := &edgewise.Request{
		ID: "7", Sequence: edgewise.Sequence{ID: 9, Start: true}, Parameters: map[string]any{"temperature": 0.5, "stop": "x"},
		Inputs: []edgewise.Tensor{
			{Name: "x", Type: edgewise.Int32, Shape: edgewise.Shape{2, 2}, Data: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}},
			{Name: "text", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "a \"b\"")},
		},
	}
	body, err := AppendGenerateRequest([]byte("before"), req, shapes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewDecoder(Limits{}.WithDefaults()).Generate(edgewise.ModelID{Name: "m"}, m, body[len("before"):])
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	defer got.Release()
	if diff := cmp.Diff(req.Inputs, got.Inputs); diff != "" {
		t.Error(diff)
	}
	if got.ID != "7" || got.Sequence != req.Sequence || !cmp.Equal(got.Parameters, req.Parameters) {
		t.Errorf("%s is read as %+v, %v", body, got.Sequence, got.Parameters)
	}
	req.Inputs[0].Shape, shapes["x"] = edgewise.Shape{2, 2}, edgewise.Shape{-1, -1}
	body, err = AppendGenerateRequest([]byte("before"), req, shapes)
	if edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), "would read 4 elements as [1,4]") ||
		string(body) != "before" {
		t.Errorf("a shape that would be lost: %s, %v", body, err)
	}
}
