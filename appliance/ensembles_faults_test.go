package appliance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// faulty is an ensemble of every kind of fault; "a" and "b" have the input "in" and the output "out", both BYTES.
const faulty = `{"platform": "ensemble",
 "input": [{"name": "in", "data_type": "TYPE_INT64", "dims": [1]}],
 "output": [{"name": "out", "data_type": "TYPE_STRING", "dims": [1]}, {"name": "late", "dims": [1]}],
 "ensemble_scheduling": {"step": [
  {"model_name": "a", "model_version": -1, "input_map": {"in": "in"}, "output_map": {"out": "out"}},
  {"model_name": "dog", "model_version": -1, "input_map": {"in": "out"}, "output_map": {"out": "late"}},
  {"model_name": "b", "model_version": -1, "input_map": {"wrong": "second"}, "output_map": {"out": "first"}},
  {"model_name": "b", "model_version": -1, "input_map": {"in": "first"}, "output_map": {"out": "second"}}]}}`

// faults are what is to be said about it, but for the model that is missing.
var faults = []string{
	`output "late": data_type is missing`,
	"tensor 'in': the ensemble takes it of type INT64, but step 0 (model 'a') takes it as input 'in' of type BYTES",
	"step 2 (model 'b'): input_map names input 'wrong', which the model does not have",
	"step 2 (model 'b'): input 'in' of the model is missing in input_map",
	"steps wait for each other in a circle",
}

func wantFaults(t *testing.T, text string, more ...string) {
	t.Helper()
	for _, want := range append(more, faults...) {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s\nin: %s", want, text)
		}
	}
}

func TestAPushReportsEveryFaultOfAnEnsemble(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"a", "b"} {
		_, err := h.push(name, name, 0, true)
		h.must(err)
	}
	_, err := h.Push(t.Context(), uploadOf("E", file{"config.json", faulty}), true)
	wantFaults(t, err.Error(), "step 1: there is no model 'dog' on this box")
}

func TestALoadFromARepositoryReportsEveryFaultOfAnEnsemble(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("a/1/model.onnx", "a")
	f.write("b/1/model.onnx", "b")
	f.write("E/1/keep", "")
	f.write("E/config.json", faulty)
	err := f.load("E")
	wantFaults(t, err.Error(), "load failed for model 'E'", "ensemble 'E' depends on 'dog' which has no loaded version: failed to load 'dog'")
	if strings.Contains(err.Error(), "there is no model 'dog'") {
		t.Errorf("the missing model is named twice: %v", err)
	}
	f.write("dog/1/model.onnx", "dog")
	wantFaults(t, f.load("E").Error(), "load failed for model 'E'")
}

func TestAnUploadAndADraftReportEveryFaultOfAnEnsemble(t *testing.T) {
	_, anna := runReal(t)
	spoken := strings.NewReplacer(`"a"`, `"first"`, `"b"`, `"second"`, `{"in":`, `{"x":`, `{"out":`, `{"y":`).Replace(faulty)
	anna.live("first", adding(1))
	anna.live("second", adding(2))
	want := []string{
		`output "late": data_type is missing`,
		"there is no model 'dog' on this box",
		"step 0 (model 'first') takes it as input 'x' of type FP32",
		"step 2 (model 'second'): input 'x' of the model is missing in input_map",
		"steps wait for each other in a circle",
	}
	job := anna.settled(anna.upload("E.zip", zipOf(t, "E/config.json", spoken), nil))
	if len(job.Steps) < 3 || job.Steps[2].Error == nil {
		t.Fatalf("the job: %+v", job)
	}
	var d admin.Draft
	anna.ask("POST", "/api/v1/drafts", admin.DraftNew{Name: "E", Config: json.RawMessage(spoken)}, &d)
	_, validation := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/validation", nil, nil)
	for _, text := range want {
		if !strings.Contains(job.Steps[2].Error.Error, text) {
			t.Errorf("the job misses %s: %s", text, job.Steps[2].Error.Error)
		}
		if quoted, _ := json.Marshal(text); !strings.Contains(validation, strings.Trim(string(quoted), `"`)) {
			t.Errorf("the draft misses %s: %s", text, validation)
		}
	}
	// What an archive brings itself is not missed.
	archive := zipOf(t, "sums/1/keep", "", "sums/config.json", strings.Replace(sums, `"second"`, `"third"`, 1), "third/1/model.onnx", string(adding(3)))
	if job := anna.settled(anna.upload("all.zip", archive, nil)); job.State != admin.JobStaged {
		t.Errorf("an archive of an ensemble: %s", states(job))
	}
}
