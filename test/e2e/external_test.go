package e2e

import (
	"archive/tar"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// exported saves net.onnx, whose weights stand in another file beside it, as exporters do.
func exported(t *testing.T, weights string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	m := onnxgen.External()
	for i := range m.Graph.Initializers {
		for k := range m.Graph.Initializers[i].External {
			if e := &m.Graph.Initializers[i].External[k]; e.Key == "location" {
				e.Value = weights
			}
		}
	}
	m.Files = map[string][]byte{weights: m.Files["weights.bin"]}
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "model.onnx"), filepath.Join(dir, "net.onnx")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// packedFiles makes an archive of files in a folder.
func packedFiles(t *testing.T, dir string, names ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestExportedModelsArePushedAsTheyAre pushes net.onnx with its weights in another file in every way that there is.
func TestExportedModelsArePushedAsTheyAre(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	for _, weights := range []string{"net.onnx.data", "net.onnx_data", "w/weights.bin"} {
		dir := exported(t, weights)
		name := strings.NewReplacer("/", "-").Replace(weights)
		b.must("model", "push", name+".alone", filepath.Join(dir, "net.onnx"))
		b.must("model", "push", name+".folder", dir)
		if !strings.Contains(weights, "/") {
			b.must("model", "push", name+".named", filepath.Join(dir, "net.onnx"), filepath.Join(dir, weights))
		}
		packed := packedFiles(t, dir, "net.onnx", weights)
		if status, answer := b.send(http.MethodPost, "/api/v1/models/"+name+".tar/versions", packed, "Content-Type",
			mimeTar); status != http.StatusCreated {
			t.Errorf("%s as an archive: %d %s", weights, status, answer)
		}
		for _, how := range []string{".alone", ".folder", ".tar"} {
			request := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`
			status, answer := b.send(http.MethodPost, "/v2/models/"+name+how+"/infer", []byte(request), "Content-Type", mimeJSON)
			if status != http.StatusOK || !strings.Contains(answer, `"data":[20,30]`) {
				t.Errorf("%s%s answers %d %s", weights, how, status, answer)
			}
		}
	}
	dir := exported(t, "net.onnx.data")
	if err := os.Remove(filepath.Join(dir, "net.onnx.data")); err != nil {
		t.Fatal(err)
	}
	b.refuses(4, []string{`"net.onnx.data" is not among the model's files`}, "model", "push", "missing", filepath.Join(dir, "net.onnx"))
	b.refuses(2, []string{"would both be stored as model.onnx"}, "model", "push", "twice",
		filepath.Join(exported(t, "a"), "net.onnx"), filepath.Join(save(t, biased(1)), "model.onnx"))
}
