package kserve

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

func floats(values ...float32) []byte {
	var data []byte
	for _, v := range values {
		data = appendBits(data, float64(v), 32)
	}
	return data
}

func fp32(name string, shape edgewise.Shape, values ...float32) edgewise.Tensor {
	return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape, Data: floats(values...)}
}

func stringsOf(name string, elements ...string) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.Bytes, Shape: edgewise.Shape{int64(len(elements))}}
	for _, e := range elements {
		t.Data = edgewise.AppendElement(t.Data, e)
	}
	return t
}

func TestResponsesAreEncoded(t *testing.T) {
	labels := Classes{Batched: true, Labels: func(output string) []string {
		return map[string][]string{"c": {"zero", "", "two"}}[output]
	}}
	scores := edgewise.Tensor{
		Name: "i", Type: edgewise.Int64, Shape: edgewise.Shape{4},
		Data: []byte(
			"\x00\x00\x00\x00\x00\x00\x00\x80\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f"),
	}
	tests := []struct {
		name string
		req  InferRequest
		resp edgewise.Response
		want string
	}{
		{
			name: "the least", want: `{"model_name":"m","model_version":"2","outputs":[]}`,
		},
		{
			name: "everything", resp: edgewise.Response{
				ID: "a\"\\\n\x01é", Parameters: map[string]any{"s": "t", "i": int64(-5), "b": true, "f": 2.0, "e": 1e300},
				Outputs: []edgewise.Tensor{
					fp32("y", edgewise.Shape{1, 2}, 1, 0.1),
					{Name: "z", Type: edgewise.Bool, Shape: edgewise.Shape{2}, Data: []byte{1, 0}},
				},
			},
			want: `{"id":"a\"\\\n\u0001é","model_name":"m","model_version":"2","parameters":{"b":true,"e":1e+300,"f":2.0,"i":-5,"s":"t"},` +
				`"outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"data":[1,0.1]},{"name":"z","datatype":"BOOL",` +
				`"shape":[2],"data":[true,false]}]}`,
		},
		{
			name: "floats that JSON does not know", resp: edgewise.Response{Outputs: []edgewise.Tensor{
				fp32("y", edgewise.Shape{5}, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
					float32(math.Copysign(0, -1)), 1e-7),
			}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"y","datatype":"FP32","shape":[5],"data":[NaN,` +
				`Infinity,-Infinity,-0,1e-07]}]}`,
		},
		{
			name: "strings", resp: edgewise.Response{Outputs: []edgewise.Tensor{stringsOf("y", "", "a\tb", "\u2028é")}},
			want: "{\"model_name\":\"m\",\"model_version\":\"2\",\"outputs\":[{\"name\":\"y\",\"datatype\":\"BYTES\"," +
				"\"shape\":[3],\"data\":[\"\",\"a\\tb\",\"\u2028é\"]}]}",
		},
		{
			name: "all binary", req: InferRequest{BinaryOutput: true},
			resp: edgewise.Response{Outputs: []edgewise.Tensor{
				stringsOf("y", "\xff"),
				{Name: "z", Type: edgewise.Int8, Shape: edgewise.Shape{2}, Data: []byte("AB")},
			}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"y","datatype":"BYTES","shape":[1],` +
				`"parameters":{"binary_data_size":5}},` +
				`{"name":"z","datatype":"INT8","shape":[2],"parameters":{"binary_data_size":2}}]}` + binaryPart +
				"\x01\x00\x00\x00\xffAB",
		},
		{
			name: "binary_data_output says nothing of outputs that are named",
			req:  InferRequest{BinaryOutput: true, Inference: Inference{Answers: []Answer{{Name: "y"}, {Name: "z", Binary: true}}}},
			resp: edgewise.Response{Outputs: []edgewise.Tensor{{
				Name: "z", Type: edgewise.Int8, Shape: edgewise.Shape{1},
				Data: []byte("A"),
			}, {Name: "y", Type: edgewise.Int8, Shape: edgewise.Shape{1}, Data: []byte("B")}}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"z","datatype":"INT8","shape":[1],` +
				`"parameters":{"binary_data_size":1}},{"name":"y","datatype":"INT8","shape":[1],"data":[66]}]}` + binaryPart + "A",
		},
		{
			name: "binary without bytes", req: InferRequest{BinaryOutput: true},
			resp: edgewise.Response{Outputs: []edgewise.Tensor{{Name: "y", Type: edgewise.FP64, Shape: edgewise.Shape{0, 2}}}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"y","datatype":"FP64","shape":[0,2],` +
				`"parameters":{"binary_data_size":0}}]}`,
		},
		{
			name: "classes", req: InferRequest{Classes: labels, Inference: Inference{Answers: []Answer{{Name: "c", Classification: 2}}}},
			resp: edgewise.Response{Outputs: []edgewise.Tensor{fp32("c", edgewise.Shape{2, 3}, 10, 0.25, 10, float32(math.NaN()),
				-1, float32(math.Inf(-1)))}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"c","datatype":"BYTES","shape":[2,2],` +
				`"data":["10.000000:0:zero","10.000000:2:two","-1.000000:1","-inf:2:two"]}]}`,
		},
		{
			name: "more classes than there are, integers, no batch",
			req:  InferRequest{Inference: Inference{Answers: []Answer{{Name: "i", Classification: 9}}}},
			resp: edgewise.Response{Outputs: []edgewise.Tensor{scores}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"i","datatype":"BYTES","shape":[4],` +
				`"data":["9223372036854775807:3","5:2","-1:1","-9223372036854775808:0"]}]}`,
		},
		{
			name: "classes in binary form", req: InferRequest{Inference: Inference{Answers: []Answer{{Name: "c", Classification: 1, Binary: true}}}},
			resp: edgewise.Response{Outputs: []edgewise.Tensor{fp32("c", edgewise.Shape{2}, 1, 2)}},
			want: `{"model_name":"m","model_version":"2","outputs":[{"name":"c","datatype":"BYTES","shape":[1],` +
				`"parameters":{"binary_data_size":14}}]}` + binaryPart + "\x0a\x00\x00\x002.000000:1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.resp.Model = model
			const before = "what stood there before"
			body, jsonSize, err := AppendInferResponse([]byte(before), &test.req, &test.resp)
			if err != nil {
				t.Fatal(err)
			}
			text, rest, _ := strings.Cut(test.want, binaryPart)
			if diff := cmp.Diff(before+text+rest, string(body)); diff != "" {
				t.Error(diff)
			}
			if jsonSize != len(text) {
				t.Errorf("the JSON part has %d bytes, want %d", jsonSize, len(text))
			}
		})
	}
}

func TestResponsesThatCannotBeEncoded(t *testing.T) {
	classes := func(name string) InferRequest {
		return InferRequest{Inference: Inference{Answers: []Answer{{Name: name, Classification: 1}}}}
	}
	tests := []struct {
		name string
		req  InferRequest
		resp edgewise.Response
		kind edgewise.Kind
		text string
	}{
		{
			name: "bytes that are no text", resp: edgewise.Response{Outputs: []edgewise.Tensor{stringsOf("y", "a", "\xff")}},
			kind: edgewise.Invalid,
			text: `tensor "y": element 1 is not valid UTF-8, which JSON cannot carry: use the binary form`,
		},
		{
			name: "a broken tensor",
			resp: edgewise.Response{Outputs: []edgewise.Tensor{{
				Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{2},
				Data: make([]byte, 7),
			}}},
			kind: edgewise.Internal, text: `tensor "y": FP32[2] takes 2 elements of 4 bytes, got 7 bytes`,
		},
		{
			name: "classes of strings", req: classes("y"),
			resp: edgewise.Response{Outputs: []edgewise.Tensor{stringsOf("y", "a")}},
			kind: edgewise.Invalid, text: "class result not available for output due to unsupported type 'BYTES'",
		},
		{
			name: "classes of bools", req: classes("y"),
			resp: edgewise.Response{Outputs: []edgewise.Tensor{{
				Name: "y", Type: edgewise.Bool, Shape: edgewise.Shape{1},
				Data: []byte{1},
			}}},
			kind: edgewise.Invalid, text: "class result not available for output due to unsupported type 'BOOL'",
		},
		{
			name: "too many classes", req: classes("y"),
			resp: edgewise.Response{Outputs: []edgewise.Tensor{
				{Name: "y", Type: edgewise.Int8, Shape: edgewise.Shape{maxClasses + 1}, Data: make([]byte, maxClasses+1)},
			}},
			kind: edgewise.TooLarge, text: "classification output tensor too large: output 'y' has 1000001 classes, at most " +
				"1000000 are allowed",
		},
		{
			name: "a parameter of another type", resp: edgewise.Response{Parameters: map[string]any{"a": []int{1}}},
			kind: edgewise.Invalid, text: `parameter "a" is a []int: want a string, int64, bool or float64`,
		},
		{
			name: "a parameter that is no number", resp: edgewise.Response{Parameters: map[string]any{"a": math.NaN()}},
			kind: edgewise.Invalid, text: `parameter "a" is NaN, which JSON cannot carry`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body, _, err := AppendInferResponse([]byte("dst"), &test.req, &test.resp)
			if err == nil || err.Error() != test.text || edgewise.KindOf(err) != test.kind {
				t.Errorf("got %v, want %v: %s", err, test.kind, test.text)
			}
			if string(body) != "dst" {
				t.Errorf("dst came back as %q", body)
			}
		})
	}
}

func TestEncodingIntoEnoughRoomAllocatesNothing(t *testing.T) {
	resp := &edgewise.Response{
		ID: "1", Model: model,
		Outputs: []edgewise.Tensor{fp32("y", edgewise.Shape{3}, 1, 0.1, 1e30), stringsOf("s", "a", "b")},
	}
	for _, form := range []Form{JSON, Binary} {
		req := &InferRequest{BinaryOutput: form == Binary}
		room, _, err := AppendInferResponse(nil, req, resp)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = AppendInferResponse(room[:0], req, resp) }); n != 0 {
			t.Errorf("%v: %v allocations", form, n)
		}
	}
}

func TestRequestsOfTheClientAreWhatTheServerReads(t *testing.T) {
	req := edgewise.Request{
		ID: "7", Model: model, Priority: 2, Timeout: 1500*time.Microsecond + 1,
		Sequence:   edgewise.Sequence{ID: 9, Start: true},
		Parameters: map[string]any{"s": "t", "i": int64(1), "f": 1.0, "b": false},
		Inputs:     []edgewise.Tensor{fp32("x", edgewise.Shape{2}, 0.1, float32(math.Inf(-1))), stringsOf("s", "é", "")},
		Outputs:    []string{"y"},
	}
	for _, in := range []Form{JSON, Binary} {
		for _, out := range []Form{JSON, Binary} {
			body, jsonSize, err := AppendInferRequest([]byte("dst"), &req, in, out)
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewDecoder(Limits{}).Infer(model, body[3:], jsonSize)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			want := req
			want.Timeout = 1501 * time.Microsecond // rounded up
			if diff := cmp.Diff(want, r.Request); diff != "" || r.BinaryOutput != (out == Binary) ||
				r.Answers[0].Binary != (out == Binary) {
				t.Errorf("%v, %v: binary %v, %s", in, out, r.BinaryOutput, diff)
			}
		}
	}
	bad := edgewise.Request{Inputs: []edgewise.Tensor{{
		Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{2},
		Data: []byte{1},
	}}}
	if _, _, err := AppendInferRequest(nil, &bad, JSON, JSON); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a broken tensor was sent: %v", err)
	}
}

func TestResponsesOfAServerAreRead(t *testing.T) {
	body := `{"x":1,"model_version":"2","id":"7","model_name":"m","parameters":{"a":1},"outputs":[{"name":"y",` +
		`"shape":[2],"datatype":"FP32","data":[1,NaN]},` +
		`{"name":"z","shape":[2],"datatype":"INT8","parameters":{"binary_data_size":2}}]}`
	got, err := DecodeInferResponse([]byte(body+"AB"), len(body), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := &edgewise.Response{
		ID: "7", Model: model, Parameters: map[string]any{"a": int64(1)},
		Outputs: []edgewise.Tensor{
			fp32("y", edgewise.Shape{2}, 1, float32(math.NaN())),
			{Name: "z", Type: edgewise.Int8, Shape: edgewise.Shape{2}, Data: []byte("AB")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadResponsesAreRefused(t *testing.T) {
	output := func(members string) string {
		return `{"outputs":[{"name":"y","shape":[2],"datatype":"INT8",` + members + `}]}`
	}
	tests := []struct{ name, body, text string }{
		{"no object", `[]`, "the answer is an array, want an object"},
		{"no outputs", `{}`, "Unable to parse 'outputs': the answer has none"},
		{"outputs twice", `{"outputs":[],"outputs":[]}`, "Unable to parse 'outputs': it is there twice"},
		{"id twice", `{"id":"a","id":"b"}`, "Unable to parse 'id': it is there twice"},
		{"version is a number", `{"model_version":1}`, "Unable to parse 'model_version': want a string, got a number"},
		{"parameters is null", `{"parameters":null}`, "Unable to parse 'parameters': want an object, got null"},
		{"too many parameters", `{"parameters":{"a":1,"b":2,"c":3}}`, "the answer has more than 2 parameters"},
		{
			"binary part too short", output(`"parameters":{"binary_data_size":2}`) + binaryPart + "A",
			"output 'y' was announced with 2 bytes, 1 are there",
		},
		{
			"binary part too long", output(`"parameters":{"binary_data_size":2}`) + binaryPart + "ABC",
			"the answer has 1 bytes after its last output",
		},
		{
			"binary size that is not the shape's", output(`"parameters":{"binary_data_size":1}`) + binaryPart + "A",
			`tensor "y": INT8[2] takes 2 elements of 1 bytes, got 1 bytes`,
		},
		{
			"data that is not the shape's", output(`"data":[1]`),
			`Failed to parse 'data' field: shape does not match true shape: output "y": shape [2] takes 2 elements, data has 1`,
		},
		{"too large", strings.Repeat(" ", 2001), "the answer has a JSON part of 2001 bytes, at most 2000 are allowed"},
		{"bytes after the end", `{"outputs":[]}x`, syntax + "The document root must not be followed by other values. at 14"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, rest, split := strings.Cut(test.body, binaryPart)
			size := -1
			if split {
				size = len(text)
			}
			if got, err := DecodeInferResponse([]byte(text+rest), size, tightLimits); err == nil || err.Error() != test.text {
				t.Errorf("got %v, %v; want %s", got, err, test.text)
			}
		})
	}
}

func TestBodiesBesideInference(t *testing.T) {
	version := &edgewise.Version{ID: model, Model: &edgewise.Model{
		Backend: "onnxruntime", MaxBatchSize: 8,
		Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1, 3}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32}},
	}}
	unbatched := &edgewise.Version{ID: model, Model: &edgewise.Model{
		Platform: "onnxruntime_onnx", Backend: "onnxruntime",
		Input: []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP16, Dims: edgewise.Shape{3}}},
	}}
	second := edgewise.Duration{Count: 2, Total: time.Second}
	measured := edgewise.Statistics{
		LastInference: time.UnixMilli(1700000000123), InferenceCount: 3, ExecutionCount: 2, Success: second, Fail: second,
		Queue: second, ComputeInput: second,
		ComputeInfer: second, ComputeOutput: second, CacheHit: second, CacheMiss: second,
		Batches: []edgewise.BatchStatistics{{Size: 4, ComputeInput: second, ComputeInfer: second, ComputeOutput: second}},
	}
	const s = `{"count":2,"ns":1000000000}`
	const z = `{"count":0,"ns":0}`
	tests := []struct {
		name string
		body any
		want string
	}{
		{
			"metadata", NewModelMetadata(version, []int64{10, 2}),
			`{"name":"m","versions":["2","10"],"platform":"onnxruntime","inputs":[{"name":"x","datatype":"BYTES","shape":[-1,` +
				`-1,3]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1]}]}`,
		},
		{
			"metadata without batching", NewModelMetadata(unbatched, nil),
			`{"name":"m","versions":[],"platform":"onnxruntime_onnx","inputs":[{"name":"x","datatype":"FP16","shape":[3]}],"outputs":[]}`,
		},
		{
			"index entry", NewIndexEntry(edgewise.Status{ID: model, State: edgewise.StateUnavailable, Reason: "unloaded"}),
			`{"name":"m","version":"2","state":"UNAVAILABLE","reason":"unloaded"}`,
		},
		{"never loaded", NewIndexEntry(edgewise.Status{ID: edgewise.ModelID{Name: "m"}}), `{"name":"m"}`},
		{
			"statistics", NewModelStatistics(model, measured),
			`{"name":"m","version":"2","last_inference":1700000000123,"inference_count":3,"execution_count":2,"inference_stats":{"success":` + s +
				`,"fail":` + s + `,"queue":` + s + `,"compute_input":` + s + `,"compute_infer":` + s + `,"compute_output":` + s +
				`,"cache_hit":` + s + `,"cache_miss":` + s +
				`},"response_stats":{},"batch_stats":[{"batch_size":4,"compute_input":` + s + `,"compute_infer":` + s +
				`,"compute_output":` + s + `}],"memory_usage":[]}`,
		},
		{
			"statistics of nothing",
			StatisticsBody{ModelStats: []ModelStatistics{NewModelStatistics(model, edgewise.Statistics{})}},
			`{"model_stats":[{"name":"m","version":"2","last_inference":0,"inference_count":0,"execution_count":0,` +
				`"inference_stats":{"success":` + z +
				`,"fail":` + z + `,"queue":` + z + `,"compute_input":` + z + `,"compute_infer":` + z + `,"compute_output":` + z +
				`,"cache_hit":` + z + `,"cache_miss":` + z +
				`},"response_stats":{},"batch_stats":[],"memory_usage":[]}]}`,
		},
		{
			"error", NewErrorBody(edgewise.Errorf("op", edgewise.Busy, "queue is full")),
			`{"error":"queue is full","code":"busy"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := json.Marshal(test.body)
			if err != nil || string(got) != test.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestEveryKindSurvivesAnErrorBody(t *testing.T) {
	for _, kind := range edgewise.Kinds() {
		sent := &edgewise.Error{
			Kind: kind, Model: model,
			Err: &TensorError{Tensor: "x", Err: edgewise.Errorf("", kind, "text")},
		}
		got := NewErrorBody(sent).Err("op", 200)
		if got.Kind != kind || got.Error() != "text" || got.Model != model || NewErrorBody(got) != NewErrorBody(sent) {
			t.Errorf("%v came back as %+v", kind, got)
		}
	}
}
