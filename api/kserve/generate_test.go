package kserve

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

// talker is a model with inputs of every form that generate has to find a shape for.
func talker() *edgewise.Model {
	return &edgewise.Model{
		Name: "talker", MaxBatchSize: 4,
		Input: []edgewise.ModelInput{
			{Name: "text", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}},
			{Name: "pair", DataType: edgewise.FP32, Dims: edgewise.Shape{2}},
			{Name: "open", DataType: edgewise.Int32, Dims: edgewise.Shape{-1, 2, -1}},
			{Name: "half", DataType: edgewise.FP16, Dims: edgewise.Shape{1}},
		},
	}
}

func TestGenerateMakesTensorsAndParameters(t *testing.T) {
	r, err := NewDecoder(Limits{}).Generate(model, talker(), []byte(`{"id":"7","text":"a\nb","parameters":{"half":1.5,"top_k":3,"stream":true},
		"pair":[1,2,3,4],"open":[1,2,3,4,5,6],"temperature":0.5,"stop":"x","priority":2}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	want := edgewise.Request{
		ID: "7", Model: model, Priority: 2,
		Inputs: []edgewise.Tensor{
			{Name: "text", Type: edgewise.Bytes, Shape: edgewise.Shape{1, 1}, Data: []byte("\x03\x00\x00\x00a\nb")},
			{Name: "half", Type: edgewise.FP16, Shape: edgewise.Shape{1, 1}, Data: []byte{0, 0x3e}},
			{
				Name: "pair", Type: edgewise.FP32, Shape: edgewise.Shape{2, 2},
				Data: []byte("\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40"),
			},
			{
				Name: "open", Type: edgewise.Int32, Shape: edgewise.Shape{1, 1, 2, 3},
				Data: []byte("\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00\x06\x00\x00\x00"),
			},
		},
		Parameters: map[string]any{"top_k": int64(3), "stream": true, "temperature": 0.5, "stop": "x"},
	}
	if diff := cmp.Diff(want, r.Request); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestGenerateRefuses(t *testing.T) {
	d := NewDecoder(Limits{MaxJSON: 300, MaxDecoded: 64, MaxDepth: 4, MaxParameters: 2})
	for _, test := range []struct {
		name, body, want string
		kind             edgewise.Kind
		input            string
	}{
		{"nothing", "", "The document is empty.", edgewise.Invalid, ""},
		{"no object", "[]", "want an object", edgewise.Invalid, ""},
		{"two values", "{}{}", "must not be followed", edgewise.Invalid, ""},
		{"an id of another type", `{"id":1}`, "Unable to parse 'id'", edgewise.Invalid, ""},
		{"an id twice", `{"id":"a","id":"b"}`, "twice", edgewise.Invalid, ""},
		{
			"too few elements", `{"pair":[1,2,3]}`, "The schema can not convert input 'pair' to tensor with proper shape",
			edgewise.Invalid, "pair",
		},
		{
			"too many elements", `{"open":[1,2,3]}`, "The schema can not convert input 'open' to tensor with proper shape",
			edgewise.Invalid, "open",
		},
		{"another type", `{"text":1}`, "want a string", edgewise.Invalid, "text"},
		{"an array in an array", `{"pair":[[1,2]]}`, "want an array of values, got an array", edgewise.Invalid, "pair"},
		{"an object", `{"pair":{"a":1}}`, "want a value or an array of values, got an object", edgewise.Invalid, "pair"},
		{
			"an object for a string", `{"text":{"a":1}}`, "Unable to parse 'text': attempt to access JSON non-string as string: ",
			edgewise.Invalid, "text",
		},
		{"null", `{"pair":null}`, "got null", edgewise.Invalid, "pair"},
		{"an input twice", `{"half":1,"parameters":{"half":1}}`, "input 'half' already exists", edgewise.Invalid, "half"},
		{
			"an array parameter", `{"stop":["a"]}`, "a parameter is a string, a number or a bool, not an array",
			edgewise.Invalid, "",
		},
		{"a null parameter", `{"stop":null}`, "not null", edgewise.Invalid, ""},
		{"a reserved parameter", `{"triton_x":1}`, "reserved", edgewise.Invalid, ""},
		{"parameters that are none", `{"parameters":[1]}`, "not an array", edgewise.Invalid, ""},
		{"too many parameters", `{"a":1,"b":2,"c":3}`, "more than 2 custom parameters", edgewise.TooLarge, ""},
		{"too deep", `{"parameters":{"x":{"y":{"z":{}}}}}`, "a parameter is", edgewise.Invalid, ""},
		{"a long body", `{"stop":"` + strings.Repeat("a", 300) + `"}`, "300 bytes", edgewise.TooLarge, ""},
		{"a large tensor", `{"open":[` + strings.Repeat("1,", 19) + `1]}`, "exceeds the maximum", edgewise.TooLarge, ""},
		{"cut off", `{"text":"a`, "Missing a closing quotation mark", edgewise.Invalid, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := d.Generate(model, talker(), []byte(test.body))
			if err == nil || edgewise.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %v with %q", err, test.kind, test.want)
			}
			if body := NewErrorBody(err); body.Input != test.input || body.Model != model.Name ||
				(body.Limit != 0) != (test.kind == edgewise.TooLarge) {
				t.Errorf("described as %+v", body)
			}
		})
	}
}

func TestGenerateAnswersScalarsAndFlatArrays(t *testing.T) {
	body, err := AppendGenerateResponse([]byte("data: "), &edgewise.Response{
		ID: "7", Model: edgewise.ModelID{Name: "talker", Version: 3}, Parameters: map[string]any{"done": true},
		Outputs: []edgewise.Tensor{
			{Name: "text", Type: edgewise.Bytes, Shape: edgewise.Shape{1, 1}, Data: []byte("\x02\x00\x00\x00hi")},
			{Name: "scores", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2}, Data: []byte("\x00\x00\x80\x3f\x00\x00\x00\x40")},
			{Name: "none", Type: edgewise.FP32, Shape: edgewise.Shape{0}},
		},
	})
	want := `data: {"model_name":"talker","model_version":"3","id":"7","text":"hi","scores":[1,2],"none":[],"done":true}`
	if err != nil || string(body) != want {
		t.Errorf("got %s, want %s: %v", body, want, err)
	}
	bad := &edgewise.Response{Outputs: []edgewise.Tensor{{
		Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{1},
		Data: []byte("\x01\x00\x00\x00\xff"),
	}}}
	if body, err := AppendGenerateResponse([]byte("x"), bad); err == nil || edgewise.KindOf(err) != edgewise.Invalid || string(body) != "x" {
		t.Errorf("bytes that are no text: %s, %v", body, err)
	}
}

// FuzzGenerate checks that no body panics the decoder, and that what it accepts has well-formed inputs of the model.
func FuzzGenerate(f *testing.F) {
	for _, seed := range []string{
		`{"id":"7","text":"a","parameters":{"half":1.5,"top_k":3},"pair":[1,2],"open":[NaN]}`, `{"text":["\ud83d\ude00"]}`,
		`{"pair":[1e5,-Infinity],"timeout":1}`, `{`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	d := NewDecoder(Limits{MaxDecoded: 1 << 20})
	m := talker()
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := d.Generate(model, m, body)
		if err != nil {
			if kind := edgewise.KindOf(err); kind != edgewise.Invalid && kind != edgewise.TooLarge {
				t.Fatalf("kind %v: %v", kind, err)
			}
			return
		}
		defer r.Release()
		if !json.Valid(body) && !strings.Contains(string(body), "NaN") && !strings.Contains(string(body), "Infinity") {
			t.Fatal("accepted what is no JSON")
		}
		for i := range r.Inputs {
			if err := r.Inputs[i].Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
