package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

const (
	mimeFile = "application/octet-stream"
	mimeTar  = "application/x-tar"
	mimeJSON = "application/json"
)

// send sends a request and returns status and body of the answer. Headers are pairs of key and value.
func (b *box) send(method, path string, body []byte, headers ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.url+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v\nbox:\n%s", method, path, err, b.output())
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(answer)
}

// upload posts a version of one file; it must be taken.
func (b *box) upload(name, query string, model *onnxgen.Model) {
	b.t.Helper()
	if status, answer := b.send(http.MethodPost, "/api/v1/models/"+name+"/versions"+query, model.Bytes(), "Content-Type",
		mimeFile); status != http.StatusCreated {
		b.t.Fatalf("uploading %s: %d %s", name, status, answer)
	}
}

// zeros is a request with the input that a biased model answers with its bias.
const zeros = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[0,0,0,0]}]}`

// biased makes y = x + bias, FP32 [batch,4].
func biased(bias float32) *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:        []onnxgen.Node{{Op: "Add", In: []string{"x", "bias"}, Out: []string{"y"}}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("bias", []int64{4}, bias, bias, bias, bias)},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
	}}
}

// unloadable makes a model that is well formed and that the runtime refuses: the sizes of its matrices contradict.
func unloadable() *onnxgen.Model {
	m := biased(1)
	m.Graph.Nodes[0].Op = "MatMul"
	m.Graph.Initializers[0] = onnxgen.Floats("bias", []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	return m
}

// answer is what tells the versions of a biased model apart.
type answer struct {
	Version string `json:"model_version"`
	Outputs []struct {
		Data []float32 `json:"data"`
	} `json:"outputs"`
}

// bias asks a biased model and returns the version that answered and its bias.
func (b *box) bias(path string) (version string, bias float32) {
	b.t.Helper()
	status, text := b.send(http.MethodPost, "/v2/models/"+path+"/infer", []byte(zeros), "Content-Type", mimeJSON)
	var a answer
	if status != http.StatusOK || json.Unmarshal([]byte(text), &a) != nil || len(a.Outputs) != 1 || len(a.Outputs[0].Data) != 4 {
		b.t.Fatalf("%s: %d %s\nbox:\n%s", path, status, text, b.output())
	}
	return a.Version, a.Outputs[0].Data[0]
}

// wantBias fails unless a biased model answers as a version with a bias.
func (b *box) wantBias(path, version string, bias float32) {
	b.t.Helper()
	if v, got := b.bias(path); v != version || got != bias {
		b.t.Errorf("%s answers %v as version %s, want %v as version %s", path, got, v, bias, version)
	}
}

// save writes a model into a new folder and returns the path of the folder.
func save(t *testing.T, m *onnxgen.Model) string {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write writes a file into a new folder and returns its path.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func sample(t *testing.T, name string) string { return filepath.Join(real.Samples(t), name) }

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%.2000s", what, part, text)
		}
	}
}

// files counts the regular files below a folder.
func files(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		if errors.Is(err, fs.ErrNotExist) { // removed while it was looked at
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantHealthy fails unless the doctor reads every file of a data folder and finds no problem.
func wantHealthy(t *testing.T, dataDir string) {
	t.Helper()
	out, stderr, code := run(t, nil, "doctor", "--verify", "--set", "data_dir="+dataDir)
	if code != 0 || !strings.Contains(out, "no problems") {
		t.Errorf("doctor --verify: exit code %d\n%s%s", code, out, stderr)
	}
}
