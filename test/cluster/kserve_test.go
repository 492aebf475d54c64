//go:build cluster

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKServeTakesTheRuntime gives a real API server with KServe's real resource definitions the runtime and the example,
// and a runtime that is wrong.
func TestKServeTakesTheRuntime(t *testing.T) {
	if *kserve == "" {
		t.Skip("KServe's resource definitions are in no registry: -cluster.kserve names a folder with them")
	}
	s := startServer(t)
	if said, err := s.helm(t, "install", "definitions", kserveChart(t, *kserve, "*.yaml"), "--wait"); err != nil {
		t.Fatalf("the definitions: %v\n%s", err, said)
	}
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
