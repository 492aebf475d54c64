package httpapi_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/compatible"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/inference"
)

// inferences connects the handlers of other protocols, as package appliance does.
type inferences struct{ *inference.Handlers }

// Stream answers with events.
func (i inferences) Stream(r *httpapi.Request, req *edgewise.Request, e compatible.Events) error {
	return i.Handlers.Stream(r, req, inference.Events(e))
}

// writerModel writes text, and asks to be served to OpenAI's clients.
func writerModel() *edgewise.Model {
	return &edgewise.Model{
		Name: "writer", Platform: "writer", ModelTransactionPolicy: &edgewise.ModelTransactionPolicy{Decoupled: true},
		Input:  []edgewise.ModelInput{{Name: "text_input", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}},
		Output: []edgewise.ModelOutput{{Name: "text_output", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}},
		Parameters: map[string]edgewise.ModelParam{
			"openai": {StringValue: "true"}, "openai_message": {StringValue: "{role}: {content} "}, "openai_prompt": {StringValue: "me:"},
		},
	}
}

// write answers with each word of its text, and fails at the word "fail".
func (e *fakeEngine) write(req *edgewise.Request) (*edgewise.Response, error) {
	if req.Each == nil {
		return nil, edgewise.Errorf("fake", edgewise.Unsupported, "it is decoupled")
	}
	data := req.Inputs[0].Data
	words := strings.SplitAfter(string(data[4:4+binary.LittleEndian.Uint32(data)]), " ")
	for _, word := range words {
		if word == "fail " {
			return nil, edgewise.Errorf("fake", edgewise.Guest, "enough")
		}
		e.talked.Add(1)
		resp := &edgewise.Response{Model: req.Model, Free: func() { e.released.Add(1) }, Outputs: []edgewise.Tensor{{
			Name: "text_output", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, word),
		}}}
		if err := req.Each(resp); err != nil {
			return nil, err
		}
	}
	return &edgewise.Response{Model: req.Model, Empty: true, Parameters: map[string]any{
		"prompt_tokens": int64(1), "completion_tokens": int64(len(words)), "finish_reason": "length",
	}}, nil
}

// plain takes what differs from run to run out of an answer.
func plain(text string) string {
	text = regexp.MustCompile(`"id":"(chatcmpl|cmpl)-\w+"`).ReplaceAllString(text, `"id":"$1"`)
	return regexp.MustCompile(`"created":\d+`).ReplaceAllString(text, `"created":0`)
}

func TestOpenAICompletions(t *testing.T) {
	const missing = `{"error":{"message":"The model 'none' does not exist","type":"invalid_request_error","param":"model",` +
		`"code":"model_not_found"}}`
	const usage = `,"usage":{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}}`
	chunk := func(delta, reason string) string {
		return `data: {"id":"chatcmpl","object":"chat.completion.chunk","created":0,"model":"writer","choices":[{"index":0,"delta":` +
			delta + `,"logprobs":null,"finish_reason":` + reason + "}]}\n\n"
	}
	text := func(text, reason string) string {
		return `data: {"id":"cmpl","object":"text_completion","created":0,"model":"writer:1","choices":[{"index":0,"text":` +
			text + `,"logprobs":null,"finish_reason":` + reason + "}]}\n\n"
	}
	const failure = `{"error":{"message":"enough","type":"invalid_request_error","param":null,"code":"guest"}}`
	ts := startServer(t, nil)
	ts.engine.writes = true
	for _, test := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{
			"a chat", "/v1/chat/completions", `{"model":"writer","messages":[{"role":"user","content":"hi"}]}`, 200,
			`{"id":"chatcmpl","object":"chat.completion","created":0,"model":"writer","choices":[{"index":0,"message":{"role":"assistant",` +
				`"content":"user: hi me:"},"logprobs":null,"finish_reason":"length"}]` + fmt.Sprintf(usage, 3, 4),
		},
		{
			"a text", "/v1/completions", `{"model":"writer","prompt":"a b"}`, 200,
			`{"id":"cmpl","object":"text_completion","created":0,"model":"writer","choices":[{"index":0,"text":"a b","logprobs":null,` +
				`"finish_reason":"length"}]` + fmt.Sprintf(usage, 2, 3),
		},
		{
			"a stream of a chat", "/v1/chat/completions", `{"model":"writer","stream":true,"messages":[{"role":"user","content":"hi"}]}`, 200,
			chunk(`{"role":"assistant","content":""}`, "null") + chunk(`{"content":"user: "}`, "null") + chunk(`{"content":"hi "}`, "null") +
				chunk(`{"content":"me:"}`, "null") + chunk(`{}`, `"length"`) + "data: [DONE]\n\n",
		},
		{
			"a stream of a version", "/v1/completions", `{"model":"writer:1","prompt":"a b","stream":true}`, 200,
			text(`"a "`, "null") + text(`"b"`, "null") + text(`""`, `"length"`) + "data: [DONE]\n\n",
		},
		{
			"a stream that fails", "/v1/completions", `{"model":"writer:1","prompt":"a fail b","stream":true}`, 200,
			text(`"a "`, "null") + "data: " + failure + "\n\n",
		},
		{"a stream that fails at once", "/v1/completions", `{"model":"writer","prompt":"fail b","stream":true}`, 422, failure},
		{"a text that fails", "/v1/completions", `{"model":"writer","prompt":"a fail b"}`, 422, failure},
		{"no model", "/v1/completions", `{"model":"none","prompt":"a"}`, 404, missing},
		{
			"a model that does not ask", "/v1/completions", `{"model":"echo","prompt":"a"}`, 404,
			`{"error":{"message":"The model 'echo' is not served here: its configuration has no parameter \"openai\" that is \"true\"",` +
				`"type":"invalid_request_error","param":"model","code":"model_not_found"}}`,
		},
		{
			"tools", "/v1/chat/completions", `{"model":"writer","messages":[{"role":"user","content":"hi"}],"tools":[{}]}`, 400,
			`{"error":{"message":"'tools' is not supported: leave it away","type":"invalid_request_error","param":"tools","code":"invalid"}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp, body := ts.do(t, "POST", test.path, test.body, "Content-Type", "application/json")
			if got := plain(body); resp.StatusCode != test.status || got != test.want {
				t.Errorf("%d\n%s\nwant %d\n%s", resp.StatusCode, got, test.status, test.want)
			}
		})
	}
	if talked, released := ts.engine.talked.Load(), ts.engine.released.Load(); talked != released {
		t.Errorf("%d responses, %d released", talked, released)
	}
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	want := []string{
		"writer 0 success", "writer 0 success", "writer 0 success", "writer 1 success", "writer 1 guest", "writer 0 guest",
		"writer 0 guest", "none 0 not_found", "echo 0 not_found", " 0 invalid",
	}
	if !slices.Equal(ts.engine.counted, want) {
		t.Errorf("counted %q", ts.engine.counted)
	}
}

func TestOpenAIModels(t *testing.T) {
	ts := startServer(t, nil)
	ts.engine.writes = true
	for path, want := range map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"writer","object":"model","created":0,"owned_by":"edgewise"}],` +
			`"models":["cold","echo","never","writer"]}`,
		"/v1/models/writer": `{"id":"writer","object":"model","created":0,"owned_by":"edgewise","model_version_status":[{"version":"1",` +
			`"state":"AVAILABLE","status":{"error_code":"OK","error_message":""}}],"name":"writer","ready":true}`,
	} {
		if resp, body := ts.do(t, "GET", path, ""); resp.StatusCode != http.StatusOK || plain(body) != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, plain(body))
		}
	}
}

// boundKeys knows one key, which is bound to a model.
type boundKeys struct{ httpapi.Accounts }

// Bearer returns a key that is bound to the model "echo".
func (boundKeys) Bearer(string, bool) (*edgewise.Principal, func(), error) {
	return &edgewise.Principal{Kind: "key", Name: "k", Rights: edgewise.Infer, Models: []string{"echo"}}, nil, nil
}

func TestAKeyThatIsBoundToAModelReachesNoOtherByItsBody(t *testing.T) {
	ts := startServerWith(t, nil, func(d *httpapi.Deps) { d.Accounts = boundKeys{} })
	ts.engine.writes = true
	for _, name := range []string{"writer", "none"} {
		resp, body := ts.do(t, "POST", "/v1/completions", `{"model":"`+name+`","prompt":"a"}`, "Authorization", "Bearer x")
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "is bound to the models echo") ||
			!strings.Contains(body, `"type":"permission_error"`) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	if _, body := ts.do(t, "GET", "/v1/models", "", "Authorization", "Bearer x"); body != `{"object":"list","data":[],"models":["echo"]}` {
		t.Errorf("the list is %s", body)
	}
	if resp, body := ts.do(t, "POST", "/v1/models/echo:predict", fourRow, "Authorization", "Bearer x"); body != fourBack {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := ts.do(t, "POST", "/v1/models/writer:predict", fourRow, "Authorization", "Bearer x"); resp.StatusCode != 403 {
		t.Errorf("another model: %d", resp.StatusCode)
	}
}
