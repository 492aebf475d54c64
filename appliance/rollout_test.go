package appliance

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/test/models"
)

// TestARolloutTakesABadVersionBackAndBringsAGoodOneLive asks a box with two candidates: one fails, one does not.
func TestARolloutTakesABadVersionBackAndBringsAGoodOneLive(t *testing.T) {
	backend := &models.Echo{Hook: func(stage, content string) error {
		if stage == "run" && content == "bad" {
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
	client := h.key(anna, admin.KeyNew{Name: "client", Rights: []string{"infer"}}) // a person may ask so many times a second only
	for i, content := range []string{"good", "bad", "good again"} {
		if _, err := h.app.registry.Push(t.Context(), models.Upload("net", models.File{"model.onnx", content}), i == 0); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/v1/models/net/rollout"
	rollout := func(want string) (r admin.Rollout) {
		t.Helper()
		if status, text := anna.ask("GET", path, nil, &r); status != 200 || r.State != want {
			t.Fatalf("%d %s, want %s", status, text, want)
		}
		return r
	}
	answered := map[string]int{}
	input := map[string]any{"inputs": []any{map[string]any{"name": "in", "datatype": "BYTES", "shape": []int{1}, "data": []string{"?"}}}}
	until := func(state string) admin.Rollout {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Minute); ; {
			var resp struct {
				Version string `json:"model_version"`
			}
			_, text := client.ask("POST", "/v2/models/net/infer", input, nil)
			_ = json.Unmarshal([]byte(text), &resp)
			answered[resp.Version]++
			var r admin.Rollout
			if anna.ask("GET", path, nil, &r); r.State == state {
				return r
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is %+v", r)
			}
		}
	}
	watch, stages := int64(3600), []admin.RolloutStage{{Percent: 30, Requests: 100}, {Percent: 60, Requests: 50}}
	for _, test := range []struct {
		name string
		plan any
		want int
		text string
	}{
		{"no such version", admin.RolloutPlan{Version: 9}, 404, "version 9"},
		{"the live version", admin.RolloutPlan{Version: 1}, 409, "is live"},
		{"a stage too large", admin.RolloutPlan{Version: 2, Stages: []admin.RolloutStage{{Percent: 100, Requests: 1}}}, 400, "stage 1"},
		{"an unknown member", map[string]any{"version": 2, "steps": 1}, 400, "steps"},
	} {
		if status, text := anna.ask("POST", path, test.plan, nil); status != test.want || !strings.Contains(text, test.text) {
			t.Errorf("%s: %d %s", test.name, status, text)
		}
	}
	if status, _ := anna.ask("GET", path, nil, nil); status != 404 {
		t.Errorf("before the first: %d", status)
	}

	events := anna.listen(t, "/api/v1/events?topics=rollout")
	if status, text := anna.ask("POST", path, admin.RolloutPlan{Version: 2, Stages: stages}, nil); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	if events.next(t); events.next(t).topic != "rollout" {
		t.Error("no event tells that it has begun")
	}
	if status, text := anna.ask("DELETE", "/api/v1/models/net/versions/2", nil, nil); status != 409 || !strings.Contains(text, "rollout") {
		t.Errorf("deleting the candidate: %d %s", status, text)
	}
	r := until(admin.RolloutBack)
	if r.Candidate.Errors == 0 || r.Live.Errors > 0 || !strings.Contains(r.Reason, "error rate") || answered["2"] > 0 {
		t.Errorf("%+v", r)
	}

	if status, text := anna.ask("POST", path, admin.RolloutPlan{Version: 3, Stages: stages, WatchSeconds: &watch}, nil); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	until(admin.RolloutWatching)
	if answered["1"] == 0 || answered["3"] == 0 {
		t.Errorf("answers by version: %v", answered)
	}
	_, page := anna.ask("GET", "/metrics", nil, nil)
	for _, want := range []string{
		`edgewise_rollout_stage{model="net",state="watching",version="3"} 2`, `edgewise_rollout_share{model="net",version="3"} 1`,
		`edgewise_rollout_evidence{condition="latency",model="net",version="3"}`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if status, text := anna.ask("POST", path+"/rollback", nil, nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	rollout(admin.RolloutBack)
	var deployments []admin.Deployment
	anna.ask("GET", "/api/v1/models/net/deployments?limit=2", nil, &deployments)
	if len(deployments) != 2 || deployments[0].To != 1 || deployments[0].Cause != admin.CauseRollback ||
		deployments[1].To != 3 || deployments[1].Cause != admin.CauseRollout {
		t.Errorf("%+v", deployments)
	}
	var audit admin.AuditPage
	anna.ask("GET", "/api/v1/audit", nil, &audit)
	for _, want := range []string{"rollout.rolled_back", "rollout.start", "rollout.rollback"} {
		if !slices.ContainsFunc(audit.Entries, func(e admin.AuditEntry) bool { return e.Action == want }) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
	if status, _ := anna.ask("POST", path+"/stop", nil, nil); status != 409 {
		t.Errorf("stopping what has ended: %d", status)
	}
	if status, text := anna.ask("DELETE", "/api/v1/models/net", nil, nil); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := anna.ask("GET", path, nil, nil); status != 404 {
		t.Errorf("of a model that is deleted: %d", status)
	}
}

// TestAShadowLeavesTheAnswersOfClientsAsTheyAre has a candidate that answers something else answer all requests as well.
func TestAShadowLeavesTheAnswersOfClientsAsTheyAre(t *testing.T) {
	h := runBoxWith(t, nil, func(a *App) {
		c := a.servingConfig(cores.New(1), a.logger)
		c.Backends = []edgewise.Backend{&models.Echo{}}
		*a.serving = *serving.New(c)
	})
	anna := h.claim()
	client := h.key(anna, admin.KeyNew{Name: "client", Rights: []string{"infer"}}) // a person may ask so many times a second only
	for i, content := range []string{"right", "wrong"} {
		if _, err := h.app.registry.Push(t.Context(), models.Upload("net", models.File{"model.onnx", content}), i == 0); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/v1/models/net/rollout"
	input := map[string]any{"inputs": []any{map[string]any{"name": "in", "datatype": "BYTES", "shape": []int{1}, "data": []string{"?"}}}}
	_, before := client.ask("POST", "/v2/models/net/infer", input, nil)
	plan := admin.RolloutPlan{
		Version: 2, Stages: []admin.RolloutStage{{Requests: 100_000}}, Shadow: &admin.RolloutShadow{Percent: 100},
	}
	if status, text := anna.ask("POST", path, plan, nil); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	var r admin.Rollout
	for deadline := time.Now().Add(time.Minute); r.State != admin.RolloutBack; {
		if status, text := client.ask("POST", "/v2/models/net/infer", input, nil); status != 200 || text != before {
			t.Fatalf("%d %s, want %s", status, text, before)
		}
		if anna.ask("GET", path, nil, &r); time.Now().After(deadline) {
			t.Fatalf("it is %+v", r)
		}
	}
	if r.Candidate.Requests != 0 || r.Shadow == nil || r.Shadow.Disagreed == 0 || !strings.Contains(r.Reason, "disagreement") {
		t.Errorf("%+v, shadow %+v", r, r.Shadow)
	}
	if worst := r.Shadow.Worst[0]; !strings.Contains(string(worst.Live), "right") || !strings.Contains(string(worst.Candidate), "wrong") {
		t.Errorf("%s, %s", worst.Live, worst.Candidate)
	}
	if h.app.monitor.Tap.On() {
		t.Error("the shadow goes on")
	}
}

// TestAnUploadGoesLiveByThePlanOfItsModel pushes versions to a box on which nobody begins a rollout.
func TestAnUploadGoesLiveByThePlanOfItsModel(t *testing.T) {
	_, anna := runReal(t)
	plan := admin.RolloutPlan{Stages: []admin.RolloutStage{{Percent: 50, Requests: 30}}}
	anna.live("net", adding(1))
	const path = "/api/v1/models/net/rollout"
	var s admin.RolloutSettings
	if status, text := anna.ask("PUT", path+"/settings", admin.RolloutSettings{Plan: &plan}, &s); status != 200 || s.Plan == nil {
		t.Fatalf("%d %s", status, text)
	}
	status, text := anna.pushed("net", adding(1.00001))
	if status != 201 || !strings.Contains(text, `"staged":true`) || anna.liveVersion("net") != 1 {
		t.Fatalf("%d %s, version %d is live", status, text, anna.liveVersion("net"))
	}
	if status, text := anna.pushed("net", adding(1.00002)); status != 409 || !strings.Contains(text, "rollout in progress") {
		t.Errorf("another version: %d %s", status, text)
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); {
			if time.Now().After(deadline) {
				t.Fatalf("waited for %s", what)
			}
			anna.ask("POST", "/v2/models/net/infer", numbersFor("x", 1, 1, 1, 1), nil)
		}
	}
	until("version 2 to go live", func() bool { return anna.liveVersion("net") == 2 })
	if status, text := anna.ask("POST", path+"/stop", nil, nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("PUT", path+"/settings", admin.RolloutSettings{}, nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.pushed("net", adding(1.00003)); status != 201 || anna.liveVersion("net") != 4 {
		t.Errorf("without a plan: %d %s, version %d is live", status, text, anna.liveVersion("net"))
	}
}

// TestAConfigurationNamesThePlanByWhichItsVersionGoesLive uploads a folder with a configuration.
func TestAConfigurationNamesThePlanByWhichItsVersionGoesLive(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	push := func(value string) (status int, text string) {
		config := `parameters { key: "rollout" value { string_value: "` + strings.ReplaceAll(value, `"`, `\"`) + `" } }`
		return anna.post("/api/v1/models/net/versions?promote=true", "application/x-tar",
			packed(t, map[string][]byte{"model.onnx": adding(1.00001), "config.pbtxt": []byte(config)}))
	}
	if status, text := push(`{"stages":[{"percent":200}]}`); status != 400 || !strings.Contains(text, "rollout") {
		t.Errorf("a plan that is none: %d %s", status, text)
	}
	if status, text := push(`{"stages":[{"percent":3,"requests":40}]}`); status != 201 || !strings.Contains(text, `"staged":true`) {
		t.Fatalf("%d %s", status, text)
	}
	var r admin.Rollout
	if status, text := anna.ask("GET", "/api/v1/models/net/rollout", nil, &r); status != 200 || r.Percent != 3 || r.Plan.Version != 2 {
		t.Errorf("%d %s", status, text)
	}
}
