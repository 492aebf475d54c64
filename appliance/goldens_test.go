package appliance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	examples "github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/scalar"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// numbersFor is the body of a request to a model of adding.
func numbersFor(input string, values ...float32) map[string]any {
	return map[string]any{"inputs": []any{map[string]any{
		"name": input, "datatype": "FP32", "shape": []int{1, 4}, "data": values,
	}}}
}

// golden stores a request with the answer of the live version.
func (v *visitor) golden(model, name string, body any) (g admin.Golden) {
	v.running.t.Helper()
	if status, text := v.ask("POST", "/api/v1/models/"+model+"/goldens?name="+name, body, &g); status != 201 {
		v.running.t.Fatalf("%d %s", status, text)
	}
	return g
}

// liveVersion returns the version that the label live points to.
func (v *visitor) liveVersion(model string) int64 {
	v.running.t.Helper()
	var m admin.Model
	if status, text := v.ask("GET", "/api/v1/models/"+model, nil, &m); status != 200 {
		v.running.t.Fatalf("%d %s", status, text)
	}
	return m.Label(edgewise.LiveLabel)
}

// pushed uploads a version that is to go live and returns the status and the body of the answer.
func (v *visitor) pushed(model string, file []byte) (status int, text string) {
	v.running.t.Helper()
	return v.post("/api/v1/models/"+model+"/versions?promote=true&file=model.onnx", "application/octet-stream", file)
}

// post sends bytes.
func (v *visitor) post(path, contentType string, body []byte) (status int, text string) {
	v.running.t.Helper()
	res := v.tus(http.MethodPost, path, body, "Content-Type", contentType)
	return res.StatusCode, res.Header.Get("X-Body")
}

func TestAVersionThatFailsItsGoldensDoesNotGoLive(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.golden("net", "ones", numbersFor("x", 1, 1, 1, 1))
	status, text := anna.pushed("net", adding(2))
	if status != 409 || !strings.Contains(text, "goldens_failed") || !strings.Contains(text, `\"ones\": output \"y\": 4 of 4 differ`) {
		t.Errorf("a version with other answers: %d %s", status, text)
	}
	if live := anna.liveVersion("net"); live != 1 {
		t.Errorf("version %d is live", live)
	}
	var report admin.GoldenReport
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/2/goldens", nil, &report); status != 200 ||
		report.Passed || report.Failed != 1 || report.Results[0].Outputs[0].Worst[0].Got != "3" ||
		!strings.Contains(string(report.Results[0].Answer), `"data":[3,3,3,3]`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("PUT", "/api/v1/models/net/labels/live", admin.SetLabel{Version: 2}, nil); status != 409 {
		t.Errorf("moving the label: %d %s", status, text)
	}
	if status, text := anna.pushed("net", adding(1.00001)); status != 201 {
		t.Errorf("a version within the tolerance: %d %s", status, text)
	}
	if got := anna.versions("net"); len(got) != 3 {
		t.Errorf("the version that failed is not kept for people to look at: %v", got)
	}
}

func TestAnUploadThatFailsItsGoldensHasLoaded(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.golden("net", "ones", numbersFor("x", 1, 1, 1, 1))
	j := anna.settled(anna.upload("net.onnx", adding(2), map[string]string{"activate": "true"}))
	if !strings.HasSuffix(states(j), "store:done load:done warm:done ready:failed") {
		t.Fatalf("%s: %s", j.State, states(j))
	}
	if e := j.Steps[len(j.Steps)-1].Error; e.Reason != admin.ReasonGoldens || e.Model != "net" || e.Version != 2 {
		t.Errorf("%+v", e)
	}
}

func TestThePolicySaysWhatFailedGoldensLeadTo(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.golden("net", "ones", numbersFor("x", 1, 1, 1, 1))
	settings := admin.GoldenSettings{Policy: admin.GoldensWarn, Rules: []admin.CompareRule{}}
	set := func() {
		t.Helper()
		if status, text := anna.ask("PUT", "/api/v1/models/net/goldens", settings, nil); status != 204 {
			t.Fatalf("%d %s", status, text)
		}
	}
	set()
	anna.live("net", adding(2))
	var report admin.GoldenReport
	if anna.ask("GET", "/api/v1/models/net/versions/2/goldens", nil, &report); report.Failed != 1 || report.Policy != "warn" {
		t.Errorf("warn: %+v", report)
	}
	settings.Policy = admin.GoldensOff
	set()
	anna.live("net", adding(3))
	if status, _ := anna.ask("GET", "/api/v1/models/net/versions/3/goldens", nil, nil); status != 404 {
		t.Errorf("off: the goldens were run: %d", status)
	}
	settings.Policy = admin.GoldensRequire
	settings.Rules = append(settings.Rules, admin.CompareRule{Output: "y", Kind: admin.CompareTolerance, Absolute: 5})
	set()
	anna.live("net", adding(4))
	if status, text := anna.ask("POST", "/api/v1/models/net/rollback", nil, nil); status != 200 {
		t.Errorf("a rollback: %d %s", status, text)
	}
	settings.Rules[0].K = 3
	if status, text := anna.ask("PUT", "/api/v1/models/net/goldens", settings, nil); status != 400 ||
		!strings.Contains(text, `"field":"rules[0].k"`) {
		t.Errorf("a bad rule: %d %s", status, text)
	}
	settings.Policy, settings.Rules = "maybe", nil
	if status, _ := anna.ask("PUT", "/api/v1/models/net/goldens", settings, nil); status != 400 {
		t.Errorf("a bad policy: %d", status)
	}
}

func TestAVersionThatIsNotLoadedRunsItsGoldens(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.live("net", adding(2))
	anna.golden("net", "twos", numbersFor("x", 2, 2, 2, 2))
	for version, failed := range map[int64]int{1: 1, 2: 0} {
		var report admin.GoldenReport
		path := fmt.Sprintf("/api/v1/models/net/versions/%d/goldens", version)
		if status, text := anna.ask("POST", path, nil, &report); status != 200 || report.Failed != failed ||
			report.Passed != (failed == 0) || len(report.Results) != 1 {
			t.Errorf("version %d: %d %s", version, status, text)
		}
	}
	var m admin.Model
	if anna.ask("GET", "/api/v1/models/net", nil, &m); m.Versions[0].State == "READY" {
		t.Error("version 1 stays loaded")
	}
	if status, _ := anna.ask("POST", "/api/v1/models/net/versions/9/goldens", nil, nil); status != 404 {
		t.Errorf("a version that is not there: %d", status)
	}
}

func TestAnEnsembleAnswersItsGoldensWithItsNewParts(t *testing.T) {
	_, anna := runReal(t)
	anna.live("first", adding(1))
	anna.live("second", adding(10))
	publish := func() (status int, text string) {
		t.Helper()
		var d admin.Draft
		if status, text := anna.ask("POST", "/api/v1/drafts", admin.DraftNew{Name: "sums", Config: json.RawMessage(sums)}, &d); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		return anna.ask("POST", "/api/v1/drafts/"+d.ID+"/publish", admin.Publish{}, nil)
	}
	if status, text := publish(); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	anna.golden("sums", "chain", numbersFor("in", 1, 2, 3, 4))
	anna.live("first", adding(2))
	if status, text := publish(); status != 409 || !strings.Contains(text, "goldens_failed") {
		t.Errorf("with another part: %d %s", status, text)
	}
	if status, text := anna.ask("POST", "/v2/models/sums/infer", numbersFor("in", 1, 2, 3, 4), nil); status != 200 ||
		!strings.Contains(text, "[12") {
		t.Errorf("%d %s", status, text)
	}
}

func TestGoldensAreGivenReadAndDeleted(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	tensor := func(name string, v float64) edgewise.Tensor {
		var data []byte
		for range 4 {
			data = scalar.AppendFloat(data, edgewise.FP32, v)
		}
		return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: data}
	}
	e := &examples.Example{
		Model: edgewise.ModelID{Name: "net"}, Inputs: []edgewise.Tensor{tensor("x", 1)}, Outputs: []edgewise.Tensor{tensor("y", 2)},
	}
	add := func() (int, string) {
		data, err := examples.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		return anna.post("/api/v1/models/net/goldens?name=given", admin.MediaExample, data)
	}
	if status, text := add(); status != 201 || !strings.Contains(text, `"created_by":"person:anna"`) {
		t.Fatalf("%d %s", status, text)
	}
	e.Outputs = nil
	if status, text := add(); status != 400 {
		t.Errorf("an example without an answer: %d %s", status, text)
	}
	var all admin.Goldens
	if anna.ask("GET", "/api/v1/models/net/goldens", nil, &all); len(all.Goldens) != 1 || all.Policy != admin.GoldensRequire ||
		all.Size != all.Goldens[0].Size || all.Goldens[0].Inputs[0].Name != "x" {
		t.Fatalf("%+v", all)
	}
	path := "/api/v1/models/net/goldens/" + all.Goldens[0].ID
	if status, text := anna.ask("GET", path, nil, nil); status != 200 || !strings.HasPrefix(text, `{"edgewise_example":1`) {
		t.Errorf("%d %.100s", status, text)
	}
	if status, text := anna.ask("DELETE", path, nil, nil); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status, _ := anna.ask(method, path, nil, nil); status != 404 {
			t.Errorf("%s of a golden that is gone: %d", method, status)
		}
	}
	var log admin.AuditPage
	anna.ask("GET", "/api/v1/audit", nil, &log)
	if text := fmt.Sprintf("%+v", log); !strings.Contains(text, "golden.add") || !strings.Contains(text, "golden.delete") {
		t.Errorf("the audit log has %s", text)
	}
}

func TestGoldensGoWithTheirModel(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.golden("net", "ones", numbersFor("x", 1, 1, 1, 1))
	if status, text := anna.ask("DELETE", "/api/v1/models/net", nil, nil); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	if status, _ := anna.ask("GET", "/api/v1/models/net/goldens", nil, nil); status != 404 {
		t.Errorf("the goldens of a deleted model: %d", status)
	}
	anna.live("net", onnxgen.MLP(1).Bytes())
	var all admin.Goldens
	if anna.ask("GET", "/api/v1/models/net/goldens", nil, &all); len(all.Goldens) != 0 {
		t.Errorf("a model of the same name has them: %+v", all)
	}
}

func TestGoldensFollowARenamedModel(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	g := anna.golden("net", "ones", numbersFor("x", 1, 1, 1, 1))
	anna.ask("POST", "/api/v1/models/net/versions/1/goldens", nil, nil)
	settings := admin.GoldenSettings{Policy: admin.GoldensWarn, Rules: []admin.CompareRule{}}
	if status, text := anna.ask("PUT", "/api/v1/models/net/goldens", settings, nil); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := anna.ask("POST", "/api/v1/models/net/rename", map[string]string{"name": "web"}, nil); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	var all admin.Goldens
	if anna.ask("GET", "/api/v1/models/web/goldens", nil, &all); len(all.Goldens) != 1 || all.Policy != "warn" || len(all.Reports) != 1 {
		t.Errorf("%+v", all)
	}
	var report admin.GoldenReport
	if status, text := anna.ask("POST", "/api/v1/models/web/versions/1/goldens", nil, &report); status != 200 || !report.Passed {
		t.Errorf("%d %s", status, text)
	}
	_, text := anna.ask("GET", "/api/v1/models/web/goldens/"+g.ID, nil, nil)
	if status, answer := anna.post("/api/v1/models/web/goldens", admin.MediaExample, []byte(text)); status != 201 {
		t.Errorf("an example under the old name: %d %s", status, answer)
	}
}

func TestAGoldenThatNoLongerFitsTheSignatureFails(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.golden("net", "ones", numbersFor("x", 1, 1, 1, 1))
	status, text := anna.pushed("net", onnxgen.MLP(1).Bytes())
	if status != 409 || !strings.Contains(text, "fails 1 of 1 goldens") {
		t.Errorf("%d %s", status, text)
	}
}
