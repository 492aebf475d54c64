package appliance

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if status, text := v.ask("GET", "/api/v1/jobs/"+id, nil, &j); status != 200 {
			v.running.t.Fatalf("job: %d %s", status, text)
		}
		if j.State != admin.JobRunning {
			return j
		}
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
	if j.State != admin.JobStaged ||
		states(j) != "verify:done unpack:skipped inspect:done store:waiting load:waiting warm:waiting ready:waiting" {
		t.Fatalf("%s: %s", j.State, states(j))
	}
	m := j.Understood.Models[0]
	if m.Name != "mlp" || m.Kind != "onnx" || len(m.Inputs) == 0 || len(m.Outputs) == 0 || m.Fit == nil || !m.Fit.Fits || m.Exists {
		t.Errorf("understood: %+v", m)
	}
	if len(h.app.registry.Records()) != 0 {
		t.Error("it is in the store before somebody has activated it")
	}
	notes := "activated"
	var begun admin.Job
	if status, text := anna.ask("POST", "/api/v1/jobs/"+id+"/activate", admin.Activate{Model: "net", Notes: notes},
		&begun); status != 202 || begun.Revision <= j.Revision {
		t.Fatalf("%d %s, after revision %d", status, text, j.Revision)
	}
	j = anna.settled(id)
	if j.Revision < begun.Revision+8 { // four steps begin and end
		t.Errorf("revision %d after %d", j.Revision, begun.Revision)
	}
	if j.State != admin.JobDone ||
		states(j) != "verify:done unpack:skipped inspect:done store:done load:done warm:done ready:done" ||
		j.Understood.Models[0].Stored != 1 {
		t.Fatalf("%s: %s %+v", j.State, states(j), j.Understood)
	}
	var model admin.Model
	if status, _ := anna.ask("GET", "/api/v1/models/net", nil, &model); status != 200 ||
		model.Versions[0].Notes != notes || model.Label("live") != 1 || model.Kind != "onnx" {
		t.Errorf("%d %+v", status, model)
	}
	var deployments []admin.Deployment
	anna.ask("GET", "/api/v1/deployments", nil, &deployments)
	if len(deployments) != 1 || deployments[0].Cause != "upload" || deployments[0].Actor != "person:anna" ||
		!deployments[0].Done || deployments[0].To != 1 {
		t.Errorf("%+v", deployments)
	}
	again := anna.settled(anna.upload("net.onnx", file, nil))
	if m := again.Understood.Models[0]; !m.Exists || m.SameAs != 1 || len(m.Warnings) != 1 {
		t.Errorf("the same again: %+v", m)
	}
	if status, _ := anna.ask("DELETE", "/api/v1/jobs/"+again.ID, nil, nil); status != 204 {
		t.Error(status)
	}
	var page admin.AuditPage
	anna.ask("GET", "/api/v1/audit", nil, &page)
	var told []string
	for _, e := range page.Entries {
		if strings.HasPrefix(e.Action, "job.") {
			told = append(told, e.Action+" "+e.Target+", "+e.Detail)
		}
	}
	want := []string{"job.discard net, net.onnx, job " + again.ID, "job.activate net, My model.onnx, job " + id}
	if !slices.Equal(told, want) {
		t.Errorf("the audit log tells %q, want %q", told, want)
	}
}

func TestUploadsFailByName(t *testing.T) {
	_, anna := runReal(t)
	var bomb bytes.Buffer // of what it declares: uploads.Unpack has a test with the bytes
	z := zip.NewWriter(&bomb)
	_, _ = z.CreateRaw(&zip.FileHeader{Name: "cat/1/model.onnx", Method: zip.Deflate, UncompressedSize64: 300 << 20})
	_ = z.Close()
	for name, test := range map[string]struct {
		file, step, want string
		body             []byte
		metadata         map[string]string
	}{
		"a PDF": {"doc.onnx", "inspect", "", []byte("%PDF-1.7 and more"), nil},
		"another hash": {
			"mlp.onnx", "verify", "did not arrive as it was sent", onnxgen.MLP(1).Bytes(),
			map[string]string{"sha256": strings.Repeat("0", 64)},
		},
		"no zip":    {"x.zip", "unpack", "no zip archive", []byte("no zip"), nil},
		"a bomb":    {"bomb.zip", "unpack", "limit", bomb.Bytes(), nil},
		"out of it": {"path.zip", "unpack", "clean path", zipOf(t, "../../etc/passwd", "x"), nil},
		"a .mar of programs": {
			"net.mar", "inspect", `the model "net" as "net.pth" with "model.py", which needs Python and PyTorch: export`,
			zipOf(t, "MAR-INF/MANIFEST.json", `{"model":{"modelName":"net","serializedFile":"net.pth","modelFile":"model.py",`+
				`"handler":"image_classifier"}}`, "net.pth", "x", "model.py", "x"), nil,
		},
		"a .mar without its model": {
			"net.mar", "inspect", "as a program, which needs",
			zipOf(t, "MAR-INF/MANIFEST.json", `{"model":{"modelName":"net","handler":"h.py"}}`, "h.py", "x"), nil,
		},
		"a .mar with a bad manifest": {
			"net.mar", "inspect", "not that of a .mar", zipOf(t, "MAR-INF/MANIFEST.json", `{`), nil,
		},
		"a SavedModel": {
			"net.zip", "inspect", "tf2onnx.convert",
			zipOf(t, "net/1/saved_model.pb", "x", "net/1/variables/a", "x"), nil,
		},
		"no backup": {"x.edgewise-backup", "unpack", "no tar archive", bytes.Repeat([]byte("no backup "), 200), nil},
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
		"a version's folder alone": {"cat.zip", zipOf(t, "7/model.onnx", onnx), "cat:7"},
		"a number around it":       {"all.zip", zipOf(t, "2026/dog/3/model.onnx", onnx), "dog:3"},
		"a model":                  {"cat.zip", zipOf(t, "dog/3/model.onnx", onnx), "dog:3"},
		"an archive of TorchServe's": {
			"file.mar", zipOf(t, "MAR-INF/MANIFEST.json", `{"model":{"modelName":"resnet-18","serializedFile":"net.onnx",`+
				`"handler":"image_classifier"}}`, "net.onnx", onnx, "model.py", "x", "index_to_name.json", "{}"), "resnet-18:0",
		},
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
		return v.tus("POST", "/api/v1/uploads", nil, "Upload-Length", length, "Upload-Metadata",
			"filename "+base64.StdEncoding.EncodeToString([]byte("a.onnx")))
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
		"another offset":   {409, []string{"Upload-Offset", "3", "Content-Type", "application/offset+octet-stream"}},
		"no offset":        {400, []string{"Content-Type", "application/offset+octet-stream"}},
		"another type":     {415, []string{"Upload-Offset", "0", "Content-Type", "text/plain"}},
		"another protocol": {412, []string{"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream", "Tus-Resumable", "0.2.2"}},
		"a wrong checksum": {460, []string{
			"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream",
			"Upload-Checksum", "sha256 " + base64.StdEncoding.EncodeToString(make([]byte, 32)),
		}},
		"an unknown checksum": {400, []string{
			"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream",
			"Upload-Checksum", "md5 AAAA",
		}},
	} {
		if res := olga.tus("PATCH", first, []byte("abc"), test.header...); res.StatusCode != test.status {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, res.Header.Get("X-Body"), test.status)
		}
	}
	if res := olga.tus("PATCH", first, []byte("0123456789ab"), "Upload-Offset", "0", "Content-Type",
		"application/offset+octet-stream"); res.StatusCode != 413 {
		t.Errorf("more than was announced: %d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	if res := olga.tus("HEAD", first, nil); res.StatusCode != 200 || res.Header.Get("Upload-Offset") != "0" ||
		res.Header.Get("Upload-Length") != "10" || res.Header.Get("Upload-Metadata") == "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := olga.tus("DELETE", first, nil); res.StatusCode != 204 || olga.tus("HEAD", first, nil).StatusCode != 404 {
		t.Errorf("%d", res.StatusCode)
	}
	if res := olga.tus("OPTIONS", "/api/v1/uploads", nil); res.StatusCode != 204 || res.Header.Get("Tus-Version") != "1.0.0" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
