package appliance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/models"
)

func TestAnUploadAndADraftReportEveryFaultOfAnEnsemble(t *testing.T) {
	_, anna := runReal(t)
	spoken := strings.NewReplacer(`"a"`, `"first"`, `"b"`, `"second"`, `{"in":`, `{"x":`, `{"out":`, `{"y":`).Replace(models.Faulty)
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
	archive := zipOf(t, "sums/1/keep", "", "sums/config.json", strings.Replace(sums, `"second"`, `"third"`, 1),
		"third/1/model.onnx", string(adding(3)))
	if job := anna.settled(anna.upload("all.zip", archive, nil)); job.State != admin.JobStaged {
		t.Errorf("an archive of an ensemble: %s", states(job))
	}
}
