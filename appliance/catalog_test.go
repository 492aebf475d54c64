package appliance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func TestModelsAreComparedLabelledAndRolledBack(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", onnxgen.MLP(1).Bytes())
	anna.live("net", onnxgen.MLP(2).Bytes())
	var c admin.Comparison
	if status, text := anna.ask("GET", "/api/v1/models/net/comparison?from=1&to=2", nil, &c); status != 200 || c.Same ||
		len(c.Differences) == 0 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("GET", "/api/v1/models/net/comparison?from=1", nil, nil); status != 400 ||
		!strings.Contains(text, "query parameter to") {
		t.Errorf("%d %s", status, text)
	}
	var g admin.Graph
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/1/graph", nil, &g); status != 200 ||
		len(g.Nodes) == 0 || len(g.Initializers) == 0 || g.Kind != "onnx" {
		t.Errorf("%d %.200s", status, text)
	}
	var d admin.VersionDetail
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/2", nil, &d); status != 200 ||
		!slices.Equal(d.LabelNames, []string{"live"}) || d.State != "READY" {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("PATCH", "/api/v1/models/net", admin.Notes{Notes: "<b>bold</b>"}, nil); status != 200 ||
		!strings.Contains(text, `\u003cb\u003e`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/1/file?path=model.onnx", nil, nil); status != 200 ||
		text != string(onnxgen.MLP(1).Bytes()) {
		t.Errorf("the file: %d, %d bytes", status, len(text))
	}
	if status, _ := anna.ask("GET", "/api/v1/models/net/versions/1/file?path=../../manifest.json", nil, nil); status != 400 {
		t.Errorf("a file outside: %d", status)
	}
	if status, text := anna.ask("POST", "/api/v1/models/net/rollback", nil, nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	var deployments []admin.Deployment
	anna.ask("GET", "/api/v1/models/net/deployments?limit=2", nil, &deployments)
	if len(deployments) != 2 || deployments[0].Cause != "rollback" || deployments[0].From != 2 || deployments[0].To != 1 {
		t.Errorf("%+v", deployments)
	}
}

// sums is an ensemble of two models that add to their input.
const sums = `{"max_batch_size": 4, "input": [{"name": "in", "data_type": "TYPE_FP32", "dims": [4]}],
  "output": [{"name": "out", "data_type": "TYPE_FP32", "dims": [4]}],
 "ensemble_scheduling": {"step": [
  {"model_name": "first", "model_version": -1, "input_map": {"x": "in"}, "output_map": {"y": "between"}},
  {"model_name": "second", "model_version": -1, "input_map": {"x": "between"}, "output_map": {"y": "out"}}]}}`

// adding is a model that adds a number to four.
func adding(bias float32) []byte {
	m := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:        []onnxgen.Node{{Op: "Add", In: []string{"x", "bias"}, Out: []string{"y"}}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("bias", []int64{4}, bias, bias, bias, bias)},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
	}}
	return m.Bytes()
}

func TestAnEnsembleIsDraftedTracedAndPublished(t *testing.T) {
	h, anna := runReal(t)
	var d admin.Draft
	if status, text := anna.ask("POST", "/api/v1/drafts", admin.DraftNew{Name: "sums", Config: json.RawMessage(sums)}, &d); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	var v admin.Validation
	if anna.ask("POST", "/api/v1/drafts/"+d.ID+"/validation", nil, &v); v.Valid || len(v.Problems) != 2 || *v.Problems[1].Step != 1 {
		t.Errorf("without its models: %+v", v)
	}
	anna.live("first", adding(1))
	anna.live("second", adding(10))
	if status, text := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/validation", nil, &v); !v.Valid || len(v.Tensors) != 3 || !v.Steps[0].Ready {
		t.Fatalf("%d %s", status, text)
	}
	input := map[string]any{"inputs": []any{map[string]any{
		"name": "in", "datatype": "FP32", "shape": []int{1, 4},
		"data": []float32{1, 2, 3, 4},
	}}}
	var trace admin.Trace
	if status, text := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/trace", input, &trace); status != 200 ||
		trace.Error != nil || len(trace.Steps) != 2 || trace.Steps[1].State != "done" {
		t.Fatalf("%d %s", status, text)
	}
	var seen []string
	for _, tensor := range trace.Tensors {
		seen = append(seen, fmt.Sprintf("%s %s %v %v", tensor.Name, tensor.Role, tensor.Summary.Min, tensor.Summary.Max))
	}
	if want := []string{"in input 1 4", "between between 2 5", "out output 12 15"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if status, _ := anna.ask("PUT", "/api/v1/drafts/"+d.ID, admin.DraftSave{Config: d.Config, Revision: d.Revision + 1}, nil); status != 409 {
		t.Errorf("another revision: %d", status)
	}
	if status, text := anna.ask("PUT", "/api/v1/drafts/"+d.ID, admin.DraftSave{
		Config: d.Config,
		Layout: json.RawMessage(`{"x":1}`), Revision: d.Revision,
	}, &d); status != 200 || d.Revision != 2 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/publish", admin.Publish{Notes: "drawn"}, nil); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := anna.ask("POST", "/v2/models/sums/infer", input, nil); status != 200 || !strings.Contains(text, "[12") {
		t.Errorf("%d %s", status, text)
	}
	var requests []admin.RequestSummary
	if anna.ask("GET", "/api/v1/requests?model=sums", nil, &requests); len(requests) != 1 || requests[0].Caller != "person:anna" {
		t.Fatalf("%+v", requests)
	}
	var detail admin.RequestDetail
	anna.ask("GET", fmt.Sprintf("/api/v1/requests/%d", requests[0].Number), nil, &detail)
	steps := 0
	for _, s := range detail.Spans {
		if s.Kind == "step" {
			steps++
		}
		if s.Start < 0 || s.Start+s.Duration > detail.Duration*1.01+1 {
			t.Errorf("span %+v of a request of %v us", s, detail.Duration)
		}
	}
	if steps != 2 || len(detail.Spans) != 11 {
		t.Errorf("%+v", detail.Spans)
	}
	var dependants []admin.Dependant
	if anna.ask("GET", "/api/v1/models/first/dependants", nil, &dependants); len(dependants) != 1 ||
		dependants[0].Name != "sums" || !slices.Equal(dependants[0].Labels, []string{"live"}) {
		t.Errorf("%+v", dependants)
	}
	var ensembles []admin.Ensemble
	if anna.ask("GET", "/api/v1/ensembles", nil, &ensembles); len(ensembles) != 1 || ensembles[0].Steps[1].Count != 1 {
		t.Errorf("%+v", ensembles)
	}
	if status, _ := anna.ask("DELETE", "/api/v1/models/first", nil, nil); status != 409 {
		t.Errorf("a model that is needed: %d", status)
	}
	if status, text := anna.ask("DELETE", "/api/v1/models/first?dependants=true", nil, nil); status != 204 ||
		h.app.registry.Lookup("sums") != nil {
		t.Errorf("with what needs it: %d %s", status, text)
	}
}

func TestABackupBringsEverythingToAnotherBox(t *testing.T) {
	_, anna := runReal(t)
	anna.live("first", adding(1))
	anna.live("second", adding(10))
	var d admin.Draft
	anna.ask("POST", "/api/v1/drafts", admin.DraftNew{Name: "sums", Config: json.RawMessage(sums)}, &d)
	if status, text := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/publish", nil, nil); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	anna.live("first", adding(2)) // the ensemble stays with the version before
	anna.ask("PATCH", "/api/v1/models/first", admin.Notes{Notes: "adds"}, nil)
	anna.ask("POST", "/api/v1/users", admin.UserNew{Name: "bert", Role: "viewer", Password: "a staple for my paper"}, nil)
	status, file := anna.ask("GET", "/api/v1/backup?accounts=true", nil, nil)
	if status != 200 {
		t.Fatalf("%d %s", status, file)
	}
	there, olga := runReal(t)
	id := olga.upload("box.edgewise-backup", []byte(file), nil)
	j := olga.settled(id)
	if j.State != admin.JobStaged || j.Understood.Backup == nil || j.Understood.Backup.Versions != 4 || j.Understood.Backup.Users != 2 {
		t.Fatalf("%s %+v %+v", j.State, j.Steps, j.Understood)
	}
	if status, text := olga.ask("POST", "/api/v1/jobs/"+id+"/activate", admin.Activate{Accounts: true}, nil); status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	if j = olga.settled(id); j.State != admin.JobDone {
		t.Fatalf("%s %s %+v", j.State, states(j), j.Steps)
	}
	var here, restored []admin.Model
	anna.ask("GET", "/api/v1/models", nil, &here)
	olga.ask("GET", "/api/v1/models", nil, &restored)
	for i := range here {
		if here[i].Notes != restored[i].Notes || here[i].Label("live") != restored[i].Label("live") {
			t.Errorf("%+v has become %+v", here[i], restored[i])
		}
		for k := range here[i].Versions {
			if here[i].Versions[k].Digest != restored[i].Versions[k].Digest {
				t.Errorf("%s version %d has another digest", here[i].Name, k+1)
			}
		}
	}
	input := map[string]any{"inputs": []any{map[string]any{
		"name": "in", "datatype": "FP32", "shape": []int{1, 4},
		"data": []float32{1, 2, 3, 4},
	}}}
	if status, text := olga.ask("POST", "/v2/models/sums/infer", input, nil); status != 200 || !strings.Contains(text, "[12") {
		t.Errorf("%d %s", status, text)
	}
	if !slices.ContainsFunc(there.app.accounts.Users(), func(u admin.User) bool { return u.Name == "bert" }) {
		t.Error("bert did not come along")
	}
	spoilt := bytes.Replace([]byte(file), []byte(`"first"`), []byte(`"fixst"`), 1)
	if j := olga.settled(olga.upload("spoilt.edgewise-backup", spoilt, nil)); j.State != admin.JobFailed {
		t.Errorf("a spoilt backup is %s", j.State)
	}
}

// staged checks that the differences between the live version of a model and what waits in a job are about some things.
func (v *visitor) staged(j admin.Job, model string, about ...string) {
	v.running.t.Helper()
	var compared admin.JobComparison
	v.ask("GET", "/api/v1/jobs/"+j.ID+"/comparison?model="+model, nil, &compared)
	what := make([]string, len(compared.Differences))
	for i, d := range compared.Differences {
		what[i] = d.What
	}
	for _, a := range about {
		if !slices.Contains(what, a) {
			v.running.t.Errorf("the differences are about %v, not %s", what, a)
		}
	}
	if len(about) == 0 && len(what) > 0 || compared.Version != 1 {
		v.running.t.Errorf("compared with what is live: %+v", compared)
	}
}

// TestMovesOfALabelSayWhatChangedInTheSignature follows one change through each answer, the history and the log.
func TestMovesOfALabelSayWhatChangedInTheSignature(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	want := func(where string, got []admin.Difference, input string) {
		t.Helper()
		if len(got) != 4 || !got[0].Breaking || got[0].What != "input "+input || got[3].Breaking {
			t.Errorf("%s: %+v", where, got)
		}
	}
	understood := func(j admin.Job) []admin.Difference { return j.Understood.Models[0].SignatureChanges }
	job := anna.settled(anna.upload("net.onnx", onnxgen.MLP(2).Bytes(), nil))
	want("before the activation", understood(job), "x")
	anna.staged(job, "net", "input x", "file model.onnx")
	anna.staged(anna.settled(anna.upload("other.onnx", adding(1), nil)), "net")
	res := anna.tus("POST", "/api/v1/models/net/versions?promote=true&file=model.onnx", onnxgen.MLP(2).Bytes(),
		"Content-Type", "application/octet-stream")
	var v admin.Version
	if err := json.Unmarshal([]byte(res.Header.Get("X-Body")), &v); err != nil || v.Version != 2 {
		t.Fatalf("%d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	want("the answer to the push", v.SignatureChanges, "x")
	var moved admin.LabelMove
	anna.ask("PUT", "/api/v1/models/net/labels/live", admin.SetLabel{Version: 1}, &moved)
	want("the answer to the label", moved.SignatureChanges, "input")
	anna.ask("POST", "/api/v1/models/net/rollback", nil, &moved)
	want("the answer to the rollback", moved.SignatureChanges, "x")
	var deployments []admin.Deployment
	anna.ask("GET", "/api/v1/models/net/deployments?limit=10", nil, &deployments)
	want("the history", deployments[0].SignatureChanges, "x")
	if first := deployments[len(deployments)-1]; first.From != 0 || first.SignatureChanges != nil {
		t.Errorf("the first version: %+v", first)
	}
	if _, logs := anna.ask("GET", "/api/v1/logs?limit=200", nil, nil); !strings.Contains(logs,
		"input x was removed (FP32 [-1,4]): clients may fail; ") {
		t.Errorf("the log: %s", logs)
	}
	// The same tensors again: nothing is said.
	anna.live("net", onnxgen.MLP(3).Bytes())
	var same []admin.Deployment
	anna.ask("GET", "/api/v1/models/net/deployments?limit=1", nil, &same)
	if same[0].To != 3 || same[0].SignatureChanges != nil {
		t.Errorf("%+v", same[0])
	}
}
