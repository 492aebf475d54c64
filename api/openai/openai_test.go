package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

var id = edgewise.ModelID{Name: "m", Version: 1}

func texter(parameters ...string) *edgewise.Model {
	m := &edgewise.Model{
		Name:       "m",
		Input:      []edgewise.ModelInput{{Name: "text_input", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}},
		Output:     []edgewise.ModelOutput{{Name: "text_output", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}},
		Parameters: map[string]edgewise.ModelParam{"openai": {StringValue: "true"}},
	}
	for i := 0; i < len(parameters); i += 2 {
		m.Parameters[parameters[i]] = edgewise.ModelParam{StringValue: parameters[i+1]}
	}
	return m
}

func room(size int) ([]byte, error) { return make([]byte, size), nil }

// asked returns what a body asks of a model: its inputs and its parameters.
func asked(t *testing.T, body string, chat bool, m *edgewise.Model) string {
	t.Helper()
	r, err := Decode([]byte(body), chat)
	if err != nil {
		t.Fatal(err)
	}
	req, err := r.Infer(kserve.NewDecoder(kserve.Limits{}), id, m, room)
	if err != nil {
		t.Fatal(err)
	}
	defer req.Release()
	var list []string
	for _, in := range req.Inputs {
		list = append(list, fmt.Sprintf("%s %v%v %q", in.Name, in.Type, in.Shape, in.Data))
	}
	var names []string
	for name := range req.Parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, fmt.Sprintf("%s=%v(%T)", name, req.Parameters[name], req.Parameters[name]))
	}
	return strings.Join(list, " ")
}

func TestARequestBecomesTheInputsAndParametersOfItsModel(t *testing.T) {
	full := texter()
	full.Input = append(full.Input,
		edgewise.ModelInput{Name: "stream", DataType: edgewise.Bool, Dims: edgewise.Shape{1}},
		edgewise.ModelInput{Name: "max_tokens", DataType: edgewise.Int32, Dims: edgewise.Shape{1}, Optional: true},
		edgewise.ModelInput{Name: "stop", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}, Optional: true})
	const say = `"messages":[{"role":"system","content":"be\nkind"},{"role":"user","content":[{"type":"text","text":"a"},` +
		`{"type":"text","text":"b"}]}]`
	for _, test := range []struct {
		name, body string
		chat       bool
		model      *edgewise.Model
		want       string
	}{
		{
			"a prompt", `{"model":"m","prompt":"<hi>","max_tokens":5,"temperature":1,"stop":"."}`, false, texter(),
			`text_input BYTES[1] "\x04\x00\x00\x00<hi>" max_tokens=5(int64) stop=["."](string) stream=false(bool) temperature=1(float64)`,
		},
		{
			"a prompt in a list, with inputs", `{"model":"m","prompt":["hi"],"max_completion_tokens":5,"stop":["a","b"],"stream":true}`,
			false, full, `text_input BYTES[1] "\x02\x00\x00\x00hi" stream BOOL[1] "\x01" max_tokens INT32[1] "\x05\x00\x00\x00" ` +
				`stop BYTES[2] "\x01\x00\x00\x00a\x01\x00\x00\x00b"`,
		},
		{
			"a chat without a form", `{"model":"m",` + say + `}`, true, texter(), `text_input BYTES[1] "\x00\x00\x00\x00" ` +
				`messages=[{"role":"system","content":"be\nkind"},{"role":"user","content":"ab"}](string) stream=false(bool)`,
		},
		{
			"a chat with a form", `{"model":"m",` + say + `,"stop":null,"seed":7}`, true,
			texter("openai_message", "<{role}>{content}\n", "openai_prompt", "<assistant>"),
			`text_input BYTES[1] "$\x00\x00\x00<system>be\nkind\n<user>ab\n<assistant>" seed=7(int64) stream=false(bool)`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := asked(t, test.body, test.chat, test.model); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestWhatIsNotServedIsRefusedWithItsName(t *testing.T) {
	for _, test := range []struct {
		body  string
		chat  bool
		field string
	}{
		{`{`, false, ""},
		{`{"prompt":"a"}`, false, "model"},
		{`{"model":"m"}`, false, "prompt"},
		{`{"model":"m","prompt":["a","b"]}`, false, "prompt"},
		{`{"model":"m","prompt":[1,2]}`, false, "prompt"},
		{`{"model":"m","messages":[]}`, true, "messages"},
		{`{"model":"m","messages":[{"content":"a"}]}`, true, "messages"},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, true, "messages"},
		{`{"model":"m","prompt":"a","n":2}`, false, "n"},
		{`{"model":"m","prompt":"a","logprobs":3}`, false, "logprobs"},
		{`{"model":"m","prompt":"a","echo":true}`, false, "echo"},
		{`{"model":"m","prompt":"a","suffix":"b"}`, false, "suffix"},
		{`{"model":"m","prompt":"a","tools":[{}]}`, false, "tools"},
		{`{"model":"m","prompt":"a","response_format":{"type":"json_object"}}`, false, "response_format"},
		{`{"model":"m","prompt":"a","max_tokens":0}`, false, "max_tokens"},
		{`{"model":"m","prompt":"a","stop":1}`, false, "stop"},
	} {
		_, err := Decode([]byte(test.body), test.chat)
		if err == nil || edgewise.KindOf(err) != edgewise.Invalid || kserve.NewErrorBody(err).Field != test.field {
			t.Errorf("%s: %v, field %q", test.body, err, kserve.NewErrorBody(err).Field)
		}
	}
}

func TestOnlyModelsOfTextsThatAskForItAreServed(t *testing.T) {
	quiet, numbers, more := texter("openai", "false"), texter(), texter()
	numbers.Output[0].DataType = edgewise.FP32
	more.Input = append(more.Input, edgewise.ModelInput{Name: "image", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}})
	for name, test := range map[string]struct {
		m         *edgewise.Model
		asked, ok bool
	}{
		"text": {texter(), true, true}, "does not ask": {quiet, false, true}, "numbers": {numbers, true, false},
		"needs more": {more, true, false},
	} {
		if asked, err := Served(test.m); asked != test.asked || (err == nil) != test.ok {
			t.Errorf("%s: %v, %v", name, asked, err)
		}
	}
}

func piece(text string, parameters map[string]any) *edgewise.Response {
	return &edgewise.Response{Parameters: parameters, Outputs: []edgewise.Tensor{{
		Name: "text_output", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, text),
	}}}
}

func TestAStreamHasAnEventForEachPiece(t *testing.T) {
	const start = `data: {"id":"chatcmpl-x","object":"chat.completion.chunk","created":7,"model":"m","choices":`
	r := &Request{Model: "m", Chat: true, Stream: true, Usage: true}
	a := r.Answer("x", 7)
	var got []byte
	for _, step := range []struct {
		resp *edgewise.Response
		last bool
	}{
		{piece("a\n", nil), false},
		{piece("\xc3", nil), false}, // half a character
		{piece("\xbc.", nil), false},
		{&edgewise.Response{Empty: true, Parameters: map[string]any{
			"prompt_tokens": int64(3), "completion_tokens": int64(2), "finish_reason": "length",
		}}, true},
	} {
		var err error
		if got, err = a.Append(got, step.resp, step.last); err != nil {
			t.Fatal(err)
		}
	}
	want := start + `[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		start + `[{"index":0,"delta":{"content":"a\n"},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		start + `[{"index":0,"delta":{"content":"ü."},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		start + `[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}` + "\n\n" +
		start + `[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\ndata: [DONE]\n\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAnAnswerHasTheWholeText(t *testing.T) {
	for chat, want := range map[bool]string{
		true: `{"id":"chatcmpl-x","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":` +
			`"assistant","content":"ab"},"logprobs":null,"finish_reason":"stop"}]}`,
		false: `{"id":"cmpl-x","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"ab",` +
			`"logprobs":null,"finish_reason":"stop"}]}`,
	} {
		a := (&Request{Model: "m", Chat: chat}).Answer("x", 7)
		for _, text := range []string{"a", "b"} {
			if err := a.Add(piece(text, nil)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := json.Marshal(a.Body(&edgewise.Response{Empty: true})); err != nil || string(got) != want {
			t.Errorf("%s %v\nwant %s", got, err, want)
		}
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	a := (&Request{Model: "m"}).Answer("x", 7)
	long := piece(strings.Repeat("a", maxAnswer), nil)
	if err := a.Add(long); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(piece("a", nil)); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
		t.Error(err)
	}
}

// FuzzDecode checks that no body panics, and that what is accepted makes a well-formed request.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","prompt":"a","stop":["b"],"temperature":0.5}`, `{"model":"m","messages":[{"role":"user","content":"a"}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream_options":{"include_usage":true}}`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	d := kserve.NewDecoder(kserve.Limits{MaxDecoded: 1 << 20})
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		r, err := Decode(body, chat)
		if err != nil {
			if edgewise.KindOf(err) != edgewise.Invalid {
				t.Fatal(err)
			}
			return
		}
		req, err := r.Infer(d, id, texter("openai_message", "{role}:{content}"), room)
		if err != nil {
			if kind := edgewise.KindOf(err); kind != edgewise.Invalid && kind != edgewise.TooLarge {
				t.Fatal(err)
			}
			return
		}
		defer req.Release()
		if err := req.Inputs[0].Check(); err != nil {
			t.Fatal(err)
		}
	})
}
