package appliance

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// runReal runs a box that can run models.
func runReal(t *testing.T) (*running, *visitor) {
	t.Helper()
	h := runBox(t, func(c *config.Config) { c.ONNX.Library, c.Engine.Isolation = real.Library(t), config.IsolationNone })
	return h, h.claim()
}

// upload sends a file in pieces and returns the id of its job.
func (v *visitor) upload(name string, file []byte, metadata map[string]string) string {
	v.running.t.Helper()
	pairs := []string{"filename " + base64.StdEncoding.EncodeToString([]byte(name))}
	for key, value := range metadata {
		pairs = append(pairs, key+" "+base64.StdEncoding.EncodeToString([]byte(value)))
	}
	res := v.tus("POST", "/api/v1/uploads", nil, "Upload-Length", strconv.Itoa(len(file)), "Upload-Metadata", strings.Join(pairs, ","))
	if res.StatusCode != 201 {
		v.running.t.Fatalf("upload of %s: %d %s", name, res.StatusCode, res.Header.Get("X-Body"))
	}
	at := res.Header.Get("Location")
	for offset := 0; offset < len(file); {
		end := min(len(file), offset+len(file)/2+1)
		res := v.tus("PATCH", at, file[offset:end], "Upload-Offset", strconv.Itoa(offset), "Content-Type", "application/offset+octet-stream")
		if res.StatusCode != 204 || res.Header.Get("Upload-Offset") != strconv.Itoa(end) {
			v.running.t.Fatalf("piece of %s: %d %s %s", name, res.StatusCode, res.Header.Get("Upload-Offset"), res.Header.Get("X-Body"))
		}
		offset = end
	}
	return at[strings.LastIndexByte(at, '/')+1:]
}

// tus sends a request of the upload protocol. The body of the answer is in the header X-Body.
func (v *visitor) tus(method, path string, body []byte, header ...string) *http.Response {
	v.running.t.Helper()
	req, err := http.NewRequest(method, v.running.base+path, bytes.NewReader(body))
	if err != nil {
		v.running.t.Fatal(err)
	}
	req.Header = v.header.Clone()
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := v.client.Do(req)
	if err != nil {
		v.running.t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Header.Set("X-Body", string(text))
	return res
}

// settled waits until a job stops.
func (v *visitor) settled(id string) (j admin.Job) {
	v.running.t.Helper()
	for range 600 {
		if status, text := v.ask("GET", "/api/v1/jobs/"+id, nil, &j); status != 200 {
			v.running.t.Fatalf("job: %d %s", status, text)
		}
		if j.State != admin.JobRunning {
			return j
		}
		time.Sleep(50 * time.Millisecond)
	}
	v.running.t.Fatalf("the job does not end: %+v", j)
	return j
}

// states are those of a job's steps, as "verify:done unpack:skipped ...".
func states(j admin.Job) string {
	var list []string
	for _, s := range j.Steps {
		list = append(list, s.Name+":"+s.State)
	}
	return strings.Join(list, " ")
}

// live uploads a model and makes it live.
func (v *visitor) live(name string, file []byte) {
	v.running.t.Helper()
	j := v.settled(v.upload(name+".onnx", file, map[string]string{"activate": "true"}))
	if j.State != admin.JobDone {
		v.running.t.Fatalf("%s: %s %s %+v", name, j.State, states(j), j.Steps)
	}
}

func TestAnUploadIsUnderstoodBeforeItIsActivated(t *testing.T) {
	h, anna := runReal(t)
	file := onnxgen.MLP(1).Bytes()
	sum := sha256.Sum256(file)
	id := anna.upload("My model.onnx", file, map[string]string{"model": "mlp", "sha256": hex.EncodeToString(sum[:]), "notes": "the first"})
	j := anna.settled(id)
	if j.State != admin.JobStaged || states(j) != "verify:done unpack:skipped inspect:done store:waiting load:waiting warm:waiting ready:waiting" {
		t.Fatalf("%s: %s", j.State, states(j))
	}
	m := j.Understood.Models[0]
	if m.Name != "mlp" || m.Kind != "onnx" || len(m.Inputs) == 0 || len(m.Outputs) == 0 || m.Fit == nil || !m.Fit.Fits || m.Exists {
		t.Errorf("understood: %+v", m)
	}
	if len(h.app.library.Records()) != 0 {
		t.Error("it is in the store before somebody has activated it")
	}
	notes := "activated"
	if status, text := anna.ask("POST", "/api/v1/jobs/"+id+"/activate", admin.Activate{Model: "net", Notes: notes}, nil); status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	j = anna.settled(id)
	if j.State != admin.JobDone || states(j) != "verify:done unpack:skipped inspect:done store:done load:done warm:done ready:done" || j.Understood.Models[0].Stored != 1 {
		t.Fatalf("%s: %s %+v", j.State, states(j), j.Understood)
	}
	var model admin.Model
	if status, _ := anna.ask("GET", "/api/v1/models/net", nil, &model); status != 200 || model.Versions[0].Notes != notes || model.Label("live") != 1 || model.Kind != "onnx" {
		t.Errorf("%d %+v", status, model)
	}
	var deployments []admin.Deployment
	anna.ask("GET", "/api/v1/deployments", nil, &deployments)
	if len(deployments) != 1 || deployments[0].Cause != "upload" || deployments[0].Actor != "person:anna" || !deployments[0].Done || deployments[0].To != 1 {
		t.Errorf("%+v", deployments)
	}
	again := anna.settled(anna.upload("net.onnx", file, nil))
	if m := again.Understood.Models[0]; !m.Exists || m.SameAs != 1 || len(m.Warnings) != 1 {
		t.Errorf("the same again: %+v", m)
	}
	if status, _ := anna.ask("DELETE", "/api/v1/jobs/"+again.ID, nil, nil); status != 204 {
		t.Error(status)
	}
}

func TestUploadsFailByName(t *testing.T) {
	_, anna := runReal(t)
	var bomb bytes.Buffer
	z := zip.NewWriter(&bomb)
	w, _ := z.Create("cat/1/model.onnx")
	_, _ = w.Write(make([]byte, 300<<20))
	_ = z.Close()
	for name, test := range map[string]struct {
		file, step, want string
		body             []byte
		metadata         map[string]string
	}{
		"a PDF":        {"doc.onnx", "inspect", "", []byte("%PDF-1.7 and more"), nil},
		"another hash": {"mlp.onnx", "verify", "did not arrive as it was sent", onnxgen.MLP(1).Bytes(), map[string]string{"sha256": strings.Repeat("0", 64)}},
		"no zip":       {"x.zip", "unpack", "no zip archive", []byte("no zip"), nil},
		"a bomb":       {"bomb.zip", "unpack", "limit", bomb.Bytes(), nil},
		"out of it":    {"path.zip", "unpack", "clean path", zipOf(t, "../../etc/passwd", "x"), nil},
		"no backup":    {"x.edgewise-backup", "unpack", "no tar archive", bytes.Repeat([]byte("no backup "), 200), nil},
	} {
		t.Run(name, func(t *testing.T) {
			j := anna.settled(anna.upload(test.file, test.body, test.metadata))
			i := slices.IndexFunc(j.Steps, func(s admin.JobStep) bool { return s.State == admin.StepFailed })
			if j.State != admin.JobFailed || i < 0 || j.Steps[i].Name != test.step || !strings.Contains(j.Steps[i].Error.Error, test.want) {
				t.Errorf("%s: %s %+v", j.State, states(j), j.Steps)
			}
		})
	}
	var models []admin.Model
	if anna.ask("GET", "/api/v1/models", nil, &models); len(models) != 0 {
		t.Errorf("something is in the store: %+v", models)
	}
}

func zipOf(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(pairs); i += 2 {
		w, err := z.Create(pairs[i])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, pairs[i+1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestArchivesHoldWhatTheySay(t *testing.T) {
	_, anna := runReal(t)
	onnx := string(onnxgen.MLP(1).Bytes())
	for name, test := range map[string]struct {
		file string
		body []byte
		want string // name:version of each model
	}{
		"a repository":             {"all.zip", zipOf(t, "a/1/model.onnx", onnx, "b/1/model.onnx", onnx, "b/2/model.onnx", onnx), "a:1 b:1 b:2"},
		"a folder around it":       {"all.zip", zipOf(t, "repo/a/1/model.onnx", onnx, "repo/b/7/model.onnx", onnx), "a:1 b:7"},
		"a model's folder":         {"cat.zip", zipOf(t, "1/model.onnx", onnx, "config.pbtxt", ""), "cat:1"},
		"a model":                  {"cat.zip", zipOf(t, "dog/3/model.onnx", onnx), "dog:3"},
		"files of one version":     {"cat.zip", zipOf(t, "model.onnx", onnx, "labels.txt", "a\nb\n"), "cat:0"},
		"what other systems leave": {"cat.zip", zipOf(t, "cat/1/model.onnx", onnx, "__MACOSX/cat/._1", "x", "cat/.DS_Store", "x"), "cat:1"},
	} {
		t.Run(name, func(t *testing.T) {
			j := anna.settled(anna.upload(test.file, test.body, nil))
			var got []string
			if j.Understood != nil {
				for _, m := range j.Understood.Models {
					got = append(got, fmt.Sprintf("%s:%d", m.Name, m.Version))
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v, %s %+v", got, j.State, j.Steps)
			}
			anna.ask("DELETE", "/api/v1/jobs/"+j.ID, nil, nil)
		})
	}
}

func TestUploadsAreTheirOwnersAndBounded(t *testing.T) {
	h, anna := runReal(t)
	olga := h.login(anna, "operator")
	begin := func(v *visitor, length string) *http.Response {
		return v.tus("POST", "/api/v1/uploads", nil, "Upload-Length", length, "Upload-Metadata", "filename "+base64.StdEncoding.EncodeToString([]byte("a.onnx")))
	}
	first := begin(olga, "10").Header.Get("Location")
	if begin(olga, "10").StatusCode != 201 {
		t.Error("the second is refused")
	}
	if res := begin(olga, "10"); res.StatusCode != 429 || !strings.Contains(res.Header.Get("X-Body"), "finish or cancel one first") {
		t.Errorf("the third: %d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	if res := begin(anna, "9223372036854775807"); res.StatusCode != 413 {
		t.Errorf("too large: %d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	if res := begin(anna, "30000000000"); res.StatusCode != 507 || !strings.Contains(res.Header.Get("X-Body"), "free") {
		t.Logf("a file that the disk may have room for: %d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	other := h.key(anna, admin.KeyNew{Name: "other", Rights: []string{"operate"}})
	if res := other.tus("HEAD", first, nil); res.StatusCode != 404 {
		t.Errorf("somebody else's: %d", res.StatusCode)
	}
	for name, test := range map[string]struct {
		status int
		header []string
	}{
		"another offset":      {409, []string{"Upload-Offset", "3", "Content-Type", "application/offset+octet-stream"}},
		"no offset":           {400, []string{"Content-Type", "application/offset+octet-stream"}},
		"another type":        {415, []string{"Upload-Offset", "0", "Content-Type", "text/plain"}},
		"another protocol":    {412, []string{"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream", "Tus-Resumable", "0.2.2"}},
		"a wrong checksum":    {460, []string{"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream", "Upload-Checksum", "sha256 " + base64.StdEncoding.EncodeToString(make([]byte, 32))}},
		"an unknown checksum": {400, []string{"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream", "Upload-Checksum", "md5 AAAA"}},
	} {
		if res := olga.tus("PATCH", first, []byte("abc"), test.header...); res.StatusCode != test.status {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, res.Header.Get("X-Body"), test.status)
		}
	}
	if res := olga.tus("PATCH", first, []byte("0123456789ab"), "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream"); res.StatusCode != 413 {
		t.Errorf("more than was announced: %d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	if res := olga.tus("HEAD", first, nil); res.StatusCode != 200 || res.Header.Get("Upload-Offset") != "0" || res.Header.Get("Upload-Length") != "10" || res.Header.Get("Upload-Metadata") == "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := olga.tus("DELETE", first, nil); res.StatusCode != 204 || olga.tus("HEAD", first, nil).StatusCode != 404 {
		t.Errorf("%d", res.StatusCode)
	}
	if res := olga.tus("OPTIONS", "/api/v1/uploads", nil); res.StatusCode != 204 || res.Header.Get("Tus-Version") != "1.0.0" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

func TestModelsAreComparedLabelledAndRolledBack(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", onnxgen.MLP(1).Bytes())
	anna.live("net", onnxgen.MLP(2).Bytes())
	var c admin.Comparison
	if status, text := anna.ask("GET", "/api/v1/models/net/comparison?from=1&to=2", nil, &c); status != 200 || c.Same || len(c.Differences) == 0 {
		t.Errorf("%d %s", status, text)
	}
	var g admin.Graph
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/1/graph", nil, &g); status != 200 || len(g.Nodes) == 0 || len(g.Initializers) == 0 || g.Kind != "onnx" {
		t.Errorf("%d %.200s", status, text)
	}
	var d admin.VersionDetail
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/2", nil, &d); status != 200 || !slices.Equal(d.LabelNames, []string{"live"}) || d.State != "READY" {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("PATCH", "/api/v1/models/net", admin.Notes{Notes: "<b>bold</b>"}, nil); status != 200 || !strings.Contains(text, `\u003cb\u003e`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/1/file?path=model.onnx", nil, nil); status != 200 || text != string(onnxgen.MLP(1).Bytes()) {
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
const sums = `{"max_batch_size": 4, "input": [{"name": "in", "data_type": "TYPE_FP32", "dims": [4]}], "output": [{"name": "out", "data_type": "TYPE_FP32", "dims": [4]}],
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
	input := map[string]any{"inputs": []any{map[string]any{"name": "in", "datatype": "FP32", "shape": []int{1, 4}, "data": []float32{1, 2, 3, 4}}}}
	var trace admin.Trace
	if status, text := anna.ask("POST", "/api/v1/drafts/"+d.ID+"/trace", input, &trace); status != 200 || trace.Error != nil || len(trace.Steps) != 2 || trace.Steps[1].State != "done" {
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
	if status, text := anna.ask("PUT", "/api/v1/drafts/"+d.ID, admin.DraftSave{Config: d.Config, Layout: json.RawMessage(`{"x":1}`), Revision: d.Revision}, &d); status != 200 || d.Revision != 2 {
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
	if anna.ask("GET", "/api/v1/models/first/dependants", nil, &dependants); len(dependants) != 1 || dependants[0].Name != "sums" || !slices.Equal(dependants[0].Labels, []string{"live"}) {
		t.Errorf("%+v", dependants)
	}
	var ensembles []admin.Ensemble
	if anna.ask("GET", "/api/v1/ensembles", nil, &ensembles); len(ensembles) != 1 || ensembles[0].Steps[1].Count != 1 {
		t.Errorf("%+v", ensembles)
	}
	if status, _ := anna.ask("DELETE", "/api/v1/models/first", nil, nil); status != 409 {
		t.Errorf("a model that is needed: %d", status)
	}
	if status, text := anna.ask("DELETE", "/api/v1/models/first?dependants=true", nil, nil); status != 204 || h.app.library.record("sums") != nil {
		t.Errorf("with what needs it: %d %s", status, text)
	}
}

func TestEventsTellWhatHappens(t *testing.T) {
	h, anna := runReal(t)
	events := anna.listen(t, "/api/v1/events")
	if e := events.next(t); e.topic != "hello" {
		t.Fatalf("%+v", e)
	}
	anna.live("net", onnxgen.MLP(1).Bytes())
	anna.ask("PATCH", "/api/v1/settings", map[string]string{"name": "shed"}, nil)
	seen, last := map[string]bool{}, ""
	for !seen["settings"] || !seen["statistics"] || !seen["ping"] {
		e := events.next(t)
		seen[e.topic] = true
		if e.topic == "settings" {
			last = e.id
		}
	}
	for _, topic := range []string{"model", "job", "deployment"} {
		if !seen[topic] {
			t.Errorf("no event of %s: %v", topic, seen)
		}
	}
	n, _ := strconv.Atoi(last)
	back := anna.listen(t, fmt.Sprintf("/api/v1/events?topics=settings&after=%d", n-1))
	if back.next(t); back.next(t).topic != "settings" {
		t.Error("the last event is not told again to who comes back")
	}
	viewer := h.login(anna, "viewer")
	if status, _ := viewer.ask("GET", "/api/v1/events?topics=log", nil, nil); status != 403 {
		t.Errorf("a viewer listens to the log: %d", status)
	}
	for range 2 {
		anna.listen(t, "/api/v1/events").next(t)
	}
	if status, text := anna.ask("GET", "/api/v1/events", nil, nil); status != 429 {
		t.Errorf("the fifth stream: %d %s", status, text)
	}
}

type event struct{ id, topic, data string }

type stream struct{ lines *bufio.Scanner }

func (v *visitor) listen(t *testing.T, path string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", v.running.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = v.header.Clone()
	res, err := v.client.Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v %v", res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return &stream{bufio.NewScanner(res.Body)}
}

func (s *stream) next(t *testing.T) (e event) {
	t.Helper()
	for s.lines.Scan() {
		key, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.topic = value
		case "data":
			e.data = value
		case "":
			return e
		}
	}
	t.Fatalf("the stream has ended: %v", s.lines.Err())
	return e
}

func TestTheLastHourIsKept(t *testing.T) {
	_, anna := runReal(t)
	anna.live("first", adding(1))
	input := map[string]any{"inputs": []any{map[string]any{"name": "x", "datatype": "FP32", "shape": []int{1, 4}, "data": []float32{1, 2, 3, 4}}}}
	deadline := time.Now().Add(30 * time.Second)
	for {
		if status, text := anna.ask("POST", "/v2/models/first/infer", input, nil); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		var hist admin.History
		anna.ask("GET", "/api/v1/statistics?seconds=60&model=first", nil, &hist)
		if len(hist.Series) == 1 && len(hist.Series[0].Requests) == 12 && hist.Series[0].Requests[11] > 0 && hist.Series[0].P99[11] != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", hist)
		}
		time.Sleep(200 * time.Millisecond)
	}
	var page admin.LogPage
	if anna.ask("GET", "/api/v1/logs?q=LABEL+moved&level=info", nil, &page); len(page.Lines) != 1 || page.Lines[0].Message != "label moved" {
		t.Errorf("%+v", page)
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
	input := map[string]any{"inputs": []any{map[string]any{"name": "in", "datatype": "FP32", "shape": []int{1, 4}, "data": []float32{1, 2, 3, 4}}}}
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
