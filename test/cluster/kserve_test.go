//go:build cluster

package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/export"
)

// TestKServeTakesTheRuntime gives a real API server with KServe's real resource definitions the runtime and the example,
// and a runtime that is wrong.
func TestKServeTakesTheRuntime(t *testing.T) {
	s := startKServe(t)
	objects := kserveChart(t, "../../configs/kubernetes/kserve", "*.yaml")
	if said, err := s.helm(t, "install", "runtime", objects); err != nil {
		t.Errorf("the runtime: %v\n%s", err, said)
	}
	runtime := filepath.Join(objects, "objects", "runtime.yaml")
	text, err := os.ReadFile(runtime)
	if err != nil {
		t.Fatal(err)
	}
	write(t, runtime, strings.Replace(string(text), "containerPort: 8080", "containerPort: many", 1))
	if said, err := s.helm(t, "upgrade", "runtime", objects); err == nil || !strings.Contains(said, "containerPort") {
		t.Errorf("a port that is none: %v\n%s", err, said)
	}
}

// TestKServeTakesWhatIsExported gives that server what "edgewise export kserve" writes, and the same with a key that KServe
// does not have.
func TestKServeTakesWhatIsExported(t *testing.T) {
	s := startKServe(t)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "cat.yaml"), exported(t, "s3://models/cat"))
	write(t, filepath.Join(folder, "all.yaml"), exported(t, "upload", "--name=all", "--storage-uri=oci://registry.example/all:1", "--gpus=1"))
	made := kserveChart(t, folder, "*.yaml")
	if said, err := s.helm(t, "install", "models", made); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	for _, name := range []string{"cat", "all"} {
		var found struct {
			Spec struct {
				Predictor struct {
					Model struct{ StorageURI, Runtime string }
				}
			}
		}
		if !s.get(t, "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices/"+name, &found) ||
			found.Spec.Predictor.Model.StorageURI == "" || found.Spec.Predictor.Model.Runtime != "edgewise" {
			t.Errorf("%s: %+v", name, found)
		}
	}
	wrong := filepath.Join(made, "objects", "cat.yaml")
	write(t, wrong, strings.Replace(exported(t, "s3://models/cat"), "minReplicas: 1", "minReplicas: one", 1))
	if said, err := s.helm(t, "upgrade", "models", made); err == nil || !strings.Contains(said, "minReplicas") {
		t.Errorf("a number that is none: %v\n%s", err, said)
	}
}

// exported is what the command writes for a model whose live version came from somewhere.
func exported(t *testing.T, origin string, arguments ...string) string {
	t.Helper()
	box := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(admin.Model{
			Name: "cat", Kind: "onnx", Labels: []edgewise.Label{{Name: edgewise.LiveLabel, Version: 1}},
			Versions: []admin.Version{{Name: "cat", Version: 1, Origin: origin}},
		})
	}))
	defer box.Close()
	var out strings.Builder
	command := export.Command(&cli.Program{Server: box.URL, Out: &out, Output: "text"})
	command.SetArgs(append([]string{"kserve", "cat"}, arguments...))
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// startKServe starts a server that knows KServe's resources.
func startKServe(t *testing.T) server {
	t.Helper()
	if *kserve == "" {
		t.Skip("KServe's resource definitions are in no registry: -cluster.kserve names a folder with them")
	}
	s := startServer(t)
	if said, err := s.helm(t, "install", "definitions", kserveChart(t, *kserve, "*.yaml"), "--wait"); err != nil {
		t.Fatalf("the definitions: %v\n%s", err, said)
	}
	return s
}

// kserveChart returns a chart of a folder's documents as they are, without templates.
func kserveChart(t *testing.T, folder, pattern string) string {
	t.Helper()
	to := t.TempDir()
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d documents: %v", folder, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, "objects", filepath.Base(file)), string(text))
	}
	write(t, filepath.Join(to, "Chart.yaml"), "apiVersion: v2\nname: objects\nversion: 0.1.0\n")
	write(t, filepath.Join(to, "templates", "all.yaml"),
		"{{- range $path, $_ := .Files.Glob \"objects/*.yaml\" }}\n---\n{{ $.Files.Get $path }}\n{{- end }}\n")
	return to
}
