package appliance

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	examples "github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/test/models"
)

// runEcho runs a box with the model "net", which has the input "in" and answers "a".
func runEcho(t *testing.T) *running {
	t.Helper()
	h := runBoxWith(t, nil, func(a *App) {
		c := a.servingConfig(cores.New(1), a.logger)
		c.Backends = []edgewise.Backend{&models.Echo{}}
		*a.serving = *serving.New(c)
	})
	if _, err := h.app.registry.Push(t.Context(), models.Upload("net", models.File{Path: "model.onnx", Content: "a"}), true); err != nil {
		t.Fatal(err)
	}
	return h
}

// say sends the model "net" a text.
func (v *visitor) say(text string) {
	v.running.t.Helper()
	body := map[string]any{"inputs": []any{map[string]any{
		"name": "in", "datatype": "BYTES", "shape": []int{1}, "data": []string{text},
	}}}
	if status, text := v.ask("POST", "/v2/models/net/infer", body, nil); status != 200 {
		v.running.t.Fatalf("%d %s", status, text)
	}
}

const netRecording = "/api/v1/models/net/recording"

// recorded waits until n requests are recorded.
func (v *visitor) recorded(n int) (found admin.Recording) {
	v.running.t.Helper()
	eventually(v.running.t, "requests are recorded", func() bool {
		found = admin.Recording{}
		v.ask("GET", netRecording, nil, &found)
		return found.Requests == n
	})
	return found
}

func TestRequestsAreRecordedDownloadedAndDeleted(t *testing.T) {
	h := runEcho(t)
	anna := h.claim()
	operator := h.login(anna, "operator")
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer"}})
	recorder := h.key(anna, admin.KeyNew{Name: "recorder", Rights: []string{"record"}, Models: []string{"net"}})
	camera.say("before")

	settings := admin.RecordingSettings{
		Enabled: true, Share: 1, QuotaBytes: 1 << 20, RetentionSeconds: 3600, Masks: []admin.RecordingMask{},
	}
	if status, text := operator.ask("PUT", netRecording, settings, nil); status != 403 {
		t.Errorf("an operator turns the recording on: %d %s", status, text)
	}
	if status, text := recorder.ask("PUT", netRecording, settings, nil); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	camera.say("first")
	camera.say("second")
	if found := anna.recorded(2); found.Recorded != 2 || found.Dropped != 0 || found.Oldest == nil || found.Problem != "" {
		t.Errorf("%+v", found)
	}
	var list []admin.RecordedRequest
	recorder.ask("GET", netRecording+"/requests", nil, &list)
	if len(list) != 2 || list[0].Number != 2 || list[1].Version != 1 {
		t.Fatalf("%+v", list)
	}
	status, data := recorder.ask("GET", netRecording+"/requests/1", nil, nil)
	e, err := examples.Decode([]byte(data))
	if status != 200 || err != nil || string(e.Inputs[0].Data[4:]) != "first" || string(e.Outputs[0].Data[4:]) != "a" {
		t.Errorf("%d %v %+v", status, err, e)
	}
	_, archive := recorder.ask("GET", netRecording+"/archive", nil, nil)
	r := tar.NewReader(strings.NewReader(archive))
	for _, want := range []string{"first", "second"} {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := examples.Decode(data); err != nil || string(e.Inputs[0].Data[4:]) != want {
			t.Errorf("the archive has %+v, %v, want %q", e, err, want)
		}
	}
	if status, text := recorder.ask("DELETE", netRecording+"/requests/1", nil, nil); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	anna.recorded(1)
	var all []admin.Recording
	anna.ask("GET", "/api/v1/recordings", nil, &all)
	if len(all) != 1 || all[0].Model != "net" {
		t.Errorf("%+v", all)
	}
	if status, _ := anna.ask("DELETE", netRecording, nil, nil); status != 204 {
		t.Error(status)
	}
	camera.say("after")
	if found := anna.recorded(0); found.Settings.Enabled {
		t.Errorf("%+v", found)
	}
	_, log := anna.ask("GET", "/api/v1/audit", nil, nil)
	for _, action := range []string{"recording.change", "recording.read", "recording.remove", "recording.delete"} {
		if !strings.Contains(log, action) {
			t.Errorf("the audit log lacks %s", action)
		}
	}
}

// TestRequestsToGenerateAreRecorded asks in the two ways that also fit models with any number of responses.
func TestRequestsToGenerateAreRecorded(t *testing.T) {
	h := runEcho(t)
	anna := h.claim()
	settings := admin.RecordingSettings{Enabled: true, Share: 1, QuotaBytes: 1 << 20, RetentionSeconds: 3600}
	settings.Masks = []admin.RecordingMask{}
	if status, text := anna.ask("PUT", netRecording, settings, nil); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for _, way := range []string{"generate", "generate_stream"} {
		if status, text := anna.ask("POST", "/v2/models/net/"+way, map[string]any{"in": way}, nil); status != 200 {
			t.Fatalf("%s: %d %s", way, status, text)
		}
	}
	if found := anna.recorded(2); found.Recorded != 2 || found.Dropped != 0 {
		t.Errorf("%+v", found)
	}
	for i, way := range []string{"generate", "generate_stream"} {
		_, data := anna.ask("GET", fmt.Sprintf("%s/requests/%d", netRecording, i+1), nil, nil)
		e, err := examples.Decode([]byte(data))
		if err != nil || string(e.Inputs[0].Data[4:]) != way || string(e.Outputs[0].Data[4:]) != "a" {
			t.Errorf("%s: %v %+v", way, err, e)
		}
	}
}

// TestNoSecretIsRecorded sends planted secrets to a masked input and looks for them in every file of the data folder.
func TestNoSecretIsRecorded(t *testing.T) {
	h := runEcho(t)
	anna := h.claim()
	settings := admin.RecordingSettings{Enabled: true, Share: 1, QuotaBytes: 1 << 20, RetentionSeconds: 3600}
	settings.Masks = []admin.RecordingMask{{Tensor: "in", How: admin.MaskHash}}
	if status, text := anna.ask("PUT", netRecording, settings, nil); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	const secret = "planted-secret"
	for range 10 {
		anna.say(secret)
	}
	anna.recorded(10)
	err := filepath.WalkDir(h.app.config.DataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestARecordingFollowsItsModelAndGoesWithIt(t *testing.T) {
	h := runEcho(t)
	anna := h.claim()
	settings := admin.RecordingSettings{
		Enabled: true, Share: 1, QuotaBytes: 1 << 20, RetentionSeconds: 3600, Masks: []admin.RecordingMask{},
	}
	if status, text := anna.ask("PUT", netRecording, settings, nil); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	anna.say("hello")
	anna.recorded(1)
	if status, text := anna.ask("POST", "/api/v1/models/net/rename", map[string]any{"name": "tan"}, nil); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	var found admin.Recording
	if anna.ask("GET", "/api/v1/models/tan/recording", nil, &found); found.Requests != 1 || !found.Settings.Enabled {
		t.Errorf("under the new name there is %+v", found)
	}
	if status, text := anna.ask("DELETE", "/api/v1/models/tan", nil, nil); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	for _, name := range []string{"net", "tan"} {
		if _, err := os.Stat(filepath.Join(h.app.config.DataDir, recordingsFolder, name)); !os.IsNotExist(err) {
			t.Errorf("recorded requests of %s are left: %v", name, err)
		}
		if status, _ := anna.ask("GET", "/api/v1/models/"+name+"/recording", nil, nil); status != 404 {
			t.Errorf("%s: %d", name, status)
		}
	}
}
