package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/test/models"
)

// TestFailuresAreCountedAndShown asks a live model that works and then fails, over REST and gRPC, as a person and with a key.
func TestFailuresAreCountedAndShown(t *testing.T) {
	var failing atomic.Bool
	backend := &models.Echo{Hook: func(stage, _ string) error {
		if stage == "run" && failing.Load() {
			return edgewise.Errorf("echo.Run", edgewise.Internal, "the accelerator is on fire")
		}
		return nil
	}}
	h := runBoxWith(t, nil, func(a *App) {
		c := a.servingConfig(cores.New(1), a.logger)
		c.Backends = []edgewise.Backend{backend}
		*a.serving = *serving.New(c)
	})
	anna := h.claim()
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer"}})
	up := models.Upload("net", models.File{"model.onnx", "a"})
	if _, err := h.app.registry.Push(t.Context(), up, true); err != nil {
		t.Fatal(err)
	}
	input := map[string]any{"inputs": []any{map[string]any{"name": "in", "datatype": "BYTES", "shape": []int{1}, "data": []string{"?"}}}}
	ask := func(v *visitor, body any, want int) {
		t.Helper()
		if status, text := v.ask("POST", "/v2/models/net/infer", body, nil); status != want {
			t.Fatalf("%d %s, want %d", status, text, want)
		}
	}
	for range 3 {
		ask(camera, input, 200)
	}
	failing.Store(true)
	for range 4 {
		ask(camera, input, 500)
	}
	ask(anna, input, 500)
	ask(anna, map[string]any{"inputs": "no"}, 400)
	ask(camera, map[string]any{"inputs": []any{map[string]any{
		"name": "other", "datatype": "BYTES", "shape": []int{1},
		"data": []string{"?"},
	}}}, 400)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", camera.header.Get("Authorization"))
	client := h.callers(insecure.NewCredentials())
	if _, err := client.ModelInfer(ctx, &inference.ModelInferRequest{
		ModelName: "net",
		Inputs:    []*inference.ModelInferRequest_InferInputTensor{{Name: "in", Datatype: "X"}},
	}); err == nil {
		t.Fatal("a type that does not exist is answered")
	}
	if status, _ := camera.ask("POST", "/v2/models/none/infer", input, nil); status != 404 {
		t.Fatal(status)
	}
	failing.Store(false)
	for range 5 {
		ask(anna, input, 200)
	}

	var list []admin.RequestSummary
	anna.ask("GET", "/api/v1/requests?failed=true", nil, &list)
	if n := len(list); n != 8 || list[n-1].Version != 1 || list[n-1].Caller != "key:camera" || list[n-1].Code != "internal" {
		t.Errorf("%d failed and refused requests are listed, want 8, of version 1: %+v", n, list)
	}
	_, page := anna.ask("GET", "/metrics", nil, nil)
	for _, line := range []string{
		`nv_inference_request_success{model="net",version="1"} 8`,
		`nv_inference_request_failure{model="net",reason="BACKEND",version="1"} 5`,
		`nv_inference_request_failure{model="net",reason="OTHER",version="1"} 3`,
		`edgewise_inference_requests_total{caller="key:camera",model="net",outcome="success",version="1"} 3`,
		`edgewise_inference_requests_total{caller="key:camera",model="net",outcome="internal",version="1"} 4`,
		`edgewise_inference_requests_total{caller="key:camera",model="net",outcome="invalid",version="1"} 2`,
		`edgewise_inference_requests_total{caller="person:anna",model="net",outcome="internal",version="1"} 1`,
		`edgewise_inference_requests_total{caller="person:anna",model="net",outcome="invalid",version="1"} 1`,
		`edgewise_inference_unknown_model_total 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	_, stats := anna.ask("GET", "/v2/models/net/stats", nil, nil)
	if !strings.Contains(stats, `"success":{"count":8,`) || !strings.Contains(stats, `"fail":{"count":8,`) {
		t.Errorf("statistics %s", stats)
	}
	var m map[string]any
	anna.ask("GET", "/api/v1/models/net", nil, &m)
	if got := fmt.Sprint(m["versions"].([]any)[0].(map[string]any)["health"]); !strings.Contains(got, "failed:5") ||
		!strings.Contains(got, "failing:false") || !strings.Contains(got, "the accelerator is on fire") ||
		!strings.Contains(got, "recent:13") {
		t.Errorf("health %s", got)
	}
	failing.Store(true)
	for range 20 {
		ask(camera, input, 500)
	}
	anna.ask("GET", "/api/v1/models/net", nil, &m)
	if got := fmt.Sprint(m["versions"].([]any)[0].(map[string]any)["health"]); !strings.Contains(got, "failing:true") {
		t.Errorf("health %s", got)
	}
	_, text := anna.ask("GET", "/api/v1/statistics?model=net", nil, nil)
	if !strings.Contains(text, `{"caller":"key:camera","outcome":"internal","count":24}`) {
		t.Errorf("statistics %s", text)
	}
	eventually(t, "a line about it in the log", func() bool { return strings.Contains(h.log.String(), "version fails") })
}

// TestATracedRunOfADraftIsCountedByTheModelOfItsStep traces a draft of an ensemble that succeeds, one that fails, and one
// whose client leaves while its step waits.
func TestATracedRunOfADraftIsCountedByTheModelOfItsStep(t *testing.T) {
	const failed, held = 1, 2
	var mode atomic.Int32
	busy, free := make(chan struct{}), make(chan struct{})
	backend := &models.Echo{Hook: func(stage, _ string) error {
		switch {
		case stage == "run" && mode.Load() == failed:
			return edgewise.Errorf("echo.Run", edgewise.Internal, "the accelerator is on fire")
		case stage == "run" && mode.Load() == held:
			busy <- struct{}{}
			<-free
		}
		return nil
	}}
	h := runBoxWith(t, nil, func(a *App) {
		c := a.servingConfig(cores.New(1), a.logger)
		c.Backends = []edgewise.Backend{backend}
		*a.serving = *serving.New(c)
	})
	anna := h.claim()
	up := models.Upload("net", models.File{"model.onnx", "a"}, models.File{"config.pbtxt", `instance_group { count: 1 kind: KIND_CPU }`})
	if _, err := h.app.registry.Push(t.Context(), up, true); err != nil {
		t.Fatal(err)
	}
	const draft = `{"input": [{"name": "x", "data_type": "TYPE_STRING", "dims": [1]}],
		"output": [{"name": "y", "data_type": "TYPE_STRING", "dims": [1]}],
		"ensemble_scheduling": {"step": [{"model_name": "net", "input_map": {"in": "x"}, "output_map": {"out": "y"}}]}}`
	var d admin.Draft
	anna.ask("POST", "/api/v1/drafts", admin.DraftNew{Name: "drawn", Config: json.RawMessage(draft)}, &d)
	tensor := func(name string) map[string]any {
		return map[string]any{"inputs": []any{map[string]any{"name": name, "datatype": "BYTES", "shape": []int{1}, "data": []string{"?"}}}}
	}
	trace := func(want string) {
		t.Helper()
		var trace admin.Trace
		_, text := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/trace", tensor("x"), &trace)
		if len(trace.Steps) != 1 || trace.Steps[0].State != want {
			t.Fatalf("the trace: %s", text)
		}
	}
	metric := func(line string) bool {
		_, page := anna.ask("GET", "/metrics", nil, nil)
		return strings.Contains(page, line+"\n")
	}
	trace(admin.StepDone)
	mode.Store(failed)
	trace(admin.StepFailed)
	mode.Store(held)
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer"}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		camera.ask("POST", "/v2/models/net/infer", tensor("in"), nil)
	}()
	<-busy
	body, _ := json.Marshal(tensor("x"))
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", h.base+"/api/v1/drafts/"+d.ID+"/trace", bytes.NewReader(body))
	req.Header = anna.header.Clone()
	left := make(chan error)
	go func() {
		_, err := anna.client.Do(req) //nolint:bodyclose // there is none: the client leaves
		left <- err
	}()
	eventually(t, "the step to wait", func() bool {
		return metric(`nv_inference_pending_request_count{model="net",version="1"} 1`)
	})
	leave()
	if err := <-left; err == nil {
		t.Fatal("the traced run was answered")
	}
	eventually(t, "the canceled step to be counted", func() bool {
		return metric(`nv_inference_request_failure{model="net",reason="CANCELED",version="1"} 1`)
	})
	close(free)
	<-ended
	for _, line := range []string{
		`nv_inference_request_success{model="net",version="1"} 2`,
		`nv_inference_request_failure{model="net",reason="BACKEND",version="1"} 1`,
		`edgewise_inference_requests_total{caller="model",model="net",outcome="success",version="1"} 1`,
		`edgewise_inference_requests_total{caller="model",model="net",outcome="internal",version="1"} 1`,
		`edgewise_inference_requests_total{caller="model",model="net",outcome="canceled",version="1"} 1`,
	} {
		if !metric(line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
