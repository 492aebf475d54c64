package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// textStep is a step that changes its tensor "text" in place.
func textStep(from, to, process string) string {
	describe := fmt.Sprintf(`{"inputs":[{"name":"text","datatype":"%s","shape":[1]}],`+
		`"outputs":[{"name":"text","datatype":"%s","shape":[1]}]}`, from, to)
	return fmt.Sprintf(`(memory (export "memory") 64)
(data (i32.const 100) "\%02x\00\00\00%s")
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 4096)
(func (export "edgewise_describe") (result i32) i32.const 100)
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32)
  (local.set $d (i32.load (i32.add (local.get $in) (i32.const 28))))
  %s
  local.get $in)`, len(describe), strings.ReplaceAll(describe, `"`, `\22`), process)
}

// The steps before and behind the counter: a text becomes the number of its bytes, a number becomes a letter.
var (
	tokenizeStep = textStep("BYTES", "INT32", `
  (i32.store (i32.add (local.get $in) (i32.const 16)) (i32.const 8))
  (i64.store (i32.add (local.get $in) (i32.const 32)) (i64.const 4))`)
	decodeStep = textStep("INT32", "BYTES", `
  (i32.store8 (i32.add (local.get $d) (i32.const 4))
    (i32.add (i32.const 97) (i32.rem_u (i32.load (local.get $d)) (i32.const 26))))
  (i32.store (local.get $d) (i32.const 1))
  (i32.store (i32.add (local.get $in) (i32.const 16)) (i32.const 13))
  (i64.store (i32.add (local.get $in) (i32.const 32)) (i64.const 5))`)
)

const chatEnsemble = `platform: "ensemble"
input { name: "text" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "letter" data_type: TYPE_STRING dims: [ 1 ] }
ensemble_scheduling {
  step { model_name: "tokenize" input_map { key: "text" value: "text" } output_map { key: "text" value: "tokens" } }
  step { model_name: "count" input_map { key: "x" value: "tokens" } output_map { key: "x" value: "token" } }
  step { model_name: "decode" input_map { key: "text" value: "token" } output_map { key: "text" value: "letter" } }
}`

// chatBox serves tokenizer, generator and decoder, and the ensemble "chat" of them.
func chatBox(t *testing.T) *box {
	t.Helper()
	b := counterBox(t)
	b.must("model", "push", "tokenize", step(t, tokenizeStep))
	b.must("model", "push", "decode", step(t, decodeStep))
	b.must("model", "push", "chat", write(t, "config.pbtxt", []byte(chatEnsemble)))
	return b
}

func askChat(t *testing.T, st inferStream, n int) {
	t.Helper()
	wanted := &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}
	text := append(binary.LittleEndian.AppendUint32(nil, uint32(n)), strings.Repeat("x", n)...)
	err := st.Send(&inference.ModelInferRequest{
		ModelName: "chat", Id: "7", Parameters: map[string]*inference.InferParameter{"triton_enable_empty_final_response": wanted},
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "text", Datatype: "BYTES", Shape: []int64{1}}},
		RawInputContents: [][]byte{text},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func letter(i int) string { return string(rune('a' + i%26)) }

// TestAnEnsembleStreamsWhatItsDecoupledStepSends reads many responses of an ensemble in order, over both protocols.
func TestAnEnsembleStreamsWhatItsDecoupledStepSends(t *testing.T) {
	t.Parallel()
	b := chatBox(t)
	t.Run("gRPC", func(t *testing.T) {
		st := b.stream(t, t.Context())
		askChat(t, st, manyResponses)
		for i := range manyResponses {
			got, err := st.Recv()
			if err != nil || got.ErrorMessage != "" {
				t.Fatalf("%v, %v", got, err)
			}
			if text := string(got.InferResponse.RawOutputContents[0][4:]); text != letter(i) || got.InferResponse.Id != "7" {
				t.Fatalf("response %d is %s", i, text)
			}
		}
		if last, err := st.Recv(); err != nil || !last.InferResponse.Parameters["triton_final_response"].GetBoolParam() ||
			len(last.InferResponse.Outputs) != 0 {
			t.Errorf("the end: %v, %v", last, err)
		}
	})
	t.Run("REST", func(t *testing.T) {
		events := b.generate(t, t.Context(), "chat", `{"text":"`+strings.Repeat("x", manyResponses)+`"}`)
		for i := range manyResponses {
			want := `data: {"model_name":"chat","model_version":"1","letter":"` + letter(i) + `",`
			if got := events(); !strings.HasPrefix(got, want) {
				t.Fatalf("event %d is %s", i, got)
			}
		}
		if got := events(); got != "EOF" {
			t.Errorf("after the last event: %s", got)
		}
	})
	t.Run("one response", func(t *testing.T) {
		status, body := b.send("POST", "/v2/models/chat/infer",
			[]byte(`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["x"]}]}`))
		if status != http.StatusNotImplemented || !strings.Contains(body, "decoupled transaction policy") {
			t.Errorf("%d: %s", status, body)
		}
	})
	t.Run("draft", func(t *testing.T) { b.tracesAStream(t) })
	t.Run("configuration", func(t *testing.T) {
		text, err := b.client.ModelConfig(t.Context(), edgewise.ModelID{Name: "chat"})
		if err != nil || !strings.Contains(string(text), `"model_transaction_policy":{"decoupled":true}`) {
			t.Errorf("%s: %v", text, err)
		}
	})
	b.stop()
}

// tracesAStream draws the ensemble, from a configuration that says what followed from other steps, and traces it.
func (b *box) tracesAStream(t *testing.T) {
	t.Helper()
	const config = `{"platform":"ensemble","model_transaction_policy":{"decoupled":true},
"input":[{"name":"text","data_type":"TYPE_STRING","dims":[1]}],"output":[{"name":"letter","data_type":"TYPE_STRING","dims":[1]}],
"ensemble_scheduling":{"step":[
 {"model_name":"tokenize","input_map":{"text":"text"},"output_map":{"text":"tokens"}},
 {"model_name":"count","input_map":{"x":"tokens"},"output_map":{"x":"token"}},
 {"model_name":"decode","input_map":{"text":"token"},"output_map":{"text":"letter"}}]}}`
	post := func(path, body string, into any) {
		t.Helper()
		status, answer := b.send(http.MethodPost, "/api/v1/drafts"+path, []byte(body), "Content-Type", mimeJSON)
		if err := json.Unmarshal([]byte(answer), into); err != nil || status >= 300 {
			t.Fatalf("%s: %d: %s", path, status, answer)
		}
	}
	var d admin.Draft
	post("", `{"name":"drawn","config":`+config+`}`, &d)
	var v admin.Validation
	if post("/"+d.ID+"/validation", "", &v); !v.Valid {
		t.Errorf("problems %+v", v.Problems)
	}
	var trace admin.Trace
	post("/"+d.ID+"/trace", `{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["abc"]}]}`, &trace)
	var calls []int
	for _, s := range trace.Steps {
		calls = append(calls, s.Calls)
	}
	var tensors []string
	for _, one := range trace.Tensors {
		tensors = append(tensors, one.Name+" "+one.Role)
	}
	slices.Sort(tensors)
	want := []string{"letter output", "text input", "token between", "tokens between"}
	if trace.Error != nil || !slices.Equal(calls, []int{1, 1, 3}) || !slices.Equal(tensors, want) {
		t.Errorf("error %+v, calls %v, tensors %q", trace.Error, calls, tensors)
	}
}

// TestLeavingTheStreamOfAnEnsembleEndsItsSteps leaves after the first response. The generator would go on for long.
func TestLeavingTheStreamOfAnEnsembleEndsItsSteps(t *testing.T) {
	t.Parallel()
	b := chatBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	st := b.stream(t, ctx)
	askChat(t, st, 1<<20)
	if got, err := st.Recv(); err != nil || got.ErrorMessage != "" {
		t.Fatalf("%v, %v", got, err)
	}
	cancel()
	b.canceled(t)
	if got := b.generate(t, t.Context(), "chat", `{"text":"x"}`)(); !strings.Contains(got, `"letter":"a"`) {
		t.Errorf("the ensemble does not answer any more: %s", got)
	}
	b.stop()
}
