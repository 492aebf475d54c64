package appliance

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/store"
)

const four = `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}`

// must asks and fails the test unless it succeeds.
func (v *visitor) must(method, path string, body, result any) {
	v.running.t.Helper()
	if status, text := v.ask(method, path, body, result); status < 200 || status > 299 {
		v.running.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

// named makes a version of a model whose configuration says the model's name.
func (v *visitor) named(model string) {
	v.running.t.Helper()
	text := "# of hall 3\nname: \"" + model + "\"\ninstance_group { count: 2 kind: KIND_CPU }\n"
	path := "/api/v1/models/" + model + "/versions?from=1&file=config.pbtxt&promote=true"
	if res := v.tus("POST", path, []byte(text), "Content-Type", "application/octet-stream"); res.StatusCode != 201 {
		v.running.t.Fatalf("%d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
}

func TestARenamedModelKeepsWhatBelongsToIt(t *testing.T) {
	h, anna := runReal(t)
	anna.live("net", adding(1))
	anna.named("net")
	anna.must("PUT", "/api/v1/models/net/labels/line-3", admin.SetLabel{Version: 1}, nil)
	anna.must("PATCH", "/api/v1/models/net", admin.Notes{Notes: "of hall 3"}, nil)
	anna.must("PATCH", "/api/v1/models/net/versions/1", admin.Notes{Notes: "as delivered"}, nil)
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer"}, Models: []string{"net", "other"}})
	var d admin.Draft
	config := strings.ReplaceAll(sums, `"first"`, `"net"`)
	anna.must("POST", "/api/v1/drafts", admin.DraftNew{Name: "sums", Config: json.RawMessage(config)}, &d)
	anna.must("PUT", "/api/v1/alerts", admin.AlertsChange{Rules: []admin.AlertRule{{Kind: admin.AlertP99, Model: "net", Above: 5}}}, nil)
	h.app.monitor.History.Note(edgewise.ModelID{Name: "net", Version: 1}, activity.Outcome{Took: time.Millisecond})

	check := func(name, old string) {
		t.Helper()
		var m admin.Model
		anna.must("GET", "/api/v1/models/"+name, nil, &m)
		if m.Label("live") != 2 || m.Label("line-3") != 1 || m.Notes != "of hall 3" || m.Versions[0].Notes != "as delivered" ||
			m.Versions[1].State != "READY" {
			t.Errorf("the model: %+v", m)
		}
		if status, text := camera.ask("POST", "/v2/models/"+name+"/infer", json.RawMessage(four), nil); status != 200 ||
			!strings.Contains(text, `"model_name":"`+name+`"`) {
			t.Errorf("the camera: %d %s", status, text)
		}
		if status, text := anna.ask("POST", "/v2/models/"+old+"/infer", json.RawMessage(four), nil); status != 404 {
			t.Errorf("the old name: %d %s", status, text)
		}
		var served struct {
			Name   string `json:"name"`
			Groups []struct {
				Name  string `json:"name"`
				Count int    `json:"count"`
			} `json:"instance_group"`
		}
		anna.must("GET", "/v2/models/"+name+"/config", nil, &served)
		if served.Name != name || served.Groups[0].Name != name+"_0" || served.Groups[0].Count != 2 {
			t.Errorf("the configuration: %+v", served)
		}
		var c admin.VersionConfiguration
		anna.must("GET", "/api/v1/models/"+name+"/versions/2/configuration", nil, &c)
		if want := "# of hall 3\nname: \"" + name + "\"\n"; !strings.HasPrefix(c.Text, want) || len(c.Problems) > 0 || len(c.Differences) > 0 {
			t.Errorf("the file: %q %+v %+v", c.Text, c.Problems, c.Differences)
		}
		var drafts []admin.Draft
		anna.must("GET", "/api/v1/drafts", nil, &drafts)
		if text := string(drafts[0].Config); !strings.Contains(text, `"`+name+`"`) || strings.Contains(text, `"`+old+`"`) {
			t.Errorf("the draft: %s", text)
		}
		var alerts admin.Alerts
		anna.must("GET", "/api/v1/alerts", nil, &alerts)
		if alerts.Rules[0].Model != name {
			t.Errorf("the rules: %+v", alerts.Rules)
		}
		var moves []admin.Deployment
		anna.must("GET", "/api/v1/models/"+name+"/deployments", nil, &moves)
		if len(moves) != 3 || moves[2].Model != name {
			t.Errorf("the deployments: %+v", moves)
		}
	}
	var renamed admin.Model
	anna.must("POST", "/api/v1/models/net/rename", admin.Rename{Name: "mesh"}, &renamed)
	if renamed.Name != "mesh" {
		t.Errorf("the answer: %+v", renamed)
	}
	check("mesh", "net")
	if _, text := anna.ask("GET", "/api/v1/audit?limit=1", nil, nil); !strings.Contains(text,
		`"action":"model.rename","target":"net","detail":"to mesh"`) {
		t.Errorf("the audit log: %s", text)
	}
	anna.must("POST", "/api/v1/models/mesh/rename", admin.Rename{Name: "net"}, nil)
	check("net", "mesh")
}

func TestRenamingIsRefusedWithItsReason(t *testing.T) {
	h, anna := runReal(t)
	for _, name := range []string{"first", "second", "other"} {
		anna.live(name, adding(1))
	}
	var d admin.Draft
	anna.must("POST", "/api/v1/drafts", admin.DraftNew{Name: "sums", Config: json.RawMessage(sums)}, &d)
	anna.must("POST", "/api/v1/drafts/"+d.ID+"/publish", admin.Publish{}, nil)
	bound := h.key(anna, admin.KeyNew{Name: "bound", Rights: []string{"operate", "read"}, Models: []string{"o*"}})
	for _, c := range []struct {
		who      *visitor
		from, to string
		status   int
		says     string
	}{
		{anna, "first", "new", 409, `\"sums\" version 1`},
		{anna, "other", "second", 409, "exists already"},
		{anna, "other", "sums", 409, "exists already"},
		{anna, "gone", "new", 404, "gone"},
		{anna, "other", "a/b", 400, "not allowed"},
		{anna, "other", "", 400, "0 bytes"},
		{anna, "other", "other", 400, "that name already"},
		{bound, "other", "new", 403, "bound to the models o*"},
		{bound, "first", "onward", 403, "bound to the models o*"},
		{bound, "other", "onward", 200, "onward"},
		{anna, "sums", "total", 200, "total"},
	} {
		status, text := c.who.ask("POST", "/api/v1/models/"+c.from+"/rename", admin.Rename{Name: c.to}, nil)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s to %q: %d %s, want %d with %q", c.from, c.to, status, text, c.status, c.says)
		}
	}
	input := json.RawMessage(strings.ReplaceAll(four, `"x"`, `"in"`))
	if status, text := anna.ask("POST", "/v2/models/total/infer", input, nil); status != 200 {
		t.Errorf("an ensemble under its new name: %d %s", status, text)
	}
}

func TestOneOfBothNamesAnswersWhileAModelIsRenamed(t *testing.T) {
	h, anna := runReal(t)
	anna.live("net", adding(1))
	device := h.key(anna, admin.KeyNew{Name: "device", Rights: []string{"infer"}})
	ask := func(name string) (int, string) {
		return device.ask("POST", "/v2/models/"+name+"/infer", json.RawMessage(four), nil)
	}
	var work sync.WaitGroup
	begun := make(chan struct{})
	work.Go(func() {
		for i := 0; ; i++ {
			status, _ := ask("net")
			if i == 0 {
				close(begun)
			}
			if status == http.StatusOK {
				continue
			}
			if status, text := ask("mesh"); status != http.StatusOK {
				t.Errorf("neither name answers: %d %s", status, text)
			}
			return
		}
	})
	<-begun
	anna.must("POST", "/api/v1/models/net/rename", admin.Rename{Name: "mesh"}, nil)
	if status, text := ask("mesh"); status != http.StatusOK {
		t.Errorf("the new name, at once: %d %s", status, text)
	}
	work.Wait()
}

func TestARenamingIsFollowedAfterALossOfPower(t *testing.T) {
	folder := t.TempDir()
	t.Run("before", func(t *testing.T) {
		h, anna := again(t, folder)
		const path = "/api/v1/models/net/versions?promote=false&file=model.onnx"
		if res := anna.tus("POST", path, adding(1), "Content-Type", "application/octet-stream"); res.StatusCode != 201 {
			t.Fatalf("%d %s", res.StatusCode, res.Header.Get("X-Body"))
		}
		anna.must("PATCH", "/api/v1/models/net", admin.Notes{Notes: "of hall 3"}, nil)
		h.app.monitor.History.Note(edgewise.ModelID{Name: "net", Version: 1}, activity.Outcome{Took: time.Millisecond})
		err := h.app.store.Rename(t.Context(), "net", "mesh", func(v *edgewise.Version, _ string) (store.Rewritten, error) {
			m := *v.Model
			m.Name = "mesh"
			return store.Rewritten{Model: &m}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	_, anna := again(t, folder)
	var m admin.Model
	anna.must("GET", "/api/v1/models/mesh", nil, &m)
	if m.Notes != "of hall 3" {
		t.Errorf("the notes: %+v", m)
	}
	var found admin.StoredHistory
	eventually(t, "the history", func() bool {
		anna.must("GET", "/api/v1/statistics/history?seconds=86400&step=3600&by=version&model=mesh", nil, &found)
		return len(found.Series) > 0
	})
	if found.Series[0].Model != "mesh" || found.Series[0].Version != 1 {
		t.Errorf("the history: %+v", found.Series)
	}
}
