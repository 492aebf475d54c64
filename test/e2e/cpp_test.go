package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cppExamples are models of the example in C++, by their names.
var cppExamples = map[string]string{
	"add_sub": `input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
input { name: "INPUT1" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ -1 ] }`,
	"repeat": `input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }`,
}

// TestTheExampleInCPPServesModels compiles the example that people begin with, and serves both of its models in the
// sandbox. Its backend.yaml says no more than it has to.
func TestTheExampleInCPPServesModels(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	example := filepath.Join(folder, "example")
	if err := os.Mkdir(example, 0o755); err != nil {
		t.Fatal(err)
	}
	const manifest = "protocol: 1\ncommand: [\"${backend}/serve\"]\nfile: model.txt\n"
	if err := os.WriteFile(filepath.Join(example, "backend.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread",
		"-o", filepath.Join(example, "serve"), "../../backends/cpp/example.cpp")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile, err, out)
	}
	b := serveReady(t, t.TempDir(), "--set", "engine.backends="+folder)
	if out := b.must("backend", "test", example); !strings.Contains(out, "start.version") {
		t.Errorf("edgewise backend test says %s", out)
	}
	for name, config := range cppExamples {
		model := t.TempDir()
		for file, text := range map[string]string{"config.pbtxt": "backend: \"example\"\n" + config, "model.txt": name} {
			if err := os.WriteFile(filepath.Join(model, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.must("model", "push", name, model)
	}
	status, sum := b.send(http.MethodPost, "/v2/models/add_sub/generate", []byte(`{"INPUT0": [1, 2], "INPUT1": [4, 0.5]}`),
		"Content-Type", mimeJSON)
	if status != http.StatusOK || !strings.Contains(sum, `"OUTPUT0":[5,2.5]`) || !strings.Contains(sum, `"OUTPUT1":[-3,1.5]`) {
		t.Errorf("add_sub: %d %s", status, sum)
	}
	status, said := b.send(http.MethodPost, "/v2/models/add_sub/generate", []byte(`{"INPUT0": [1], "INPUT1": [4, 0.5]}`),
		"Content-Type", mimeJSON)
	if status == http.StatusOK || !strings.Contains(said, "different shapes") {
		t.Errorf("add_sub of different shapes: %d %s", status, said)
	}
	_, events := b.send(http.MethodPost, "/v2/models/repeat/generate_stream", []byte(`{"IN": [7, 8, 9], "DELAY": [0, 1, 0]}`),
		"Content-Type", mimeJSON)
	if strings.Count(events, "data: ") != 3 || strings.Index(events, `"OUT":7`) > strings.Index(events, `"OUT":9`) {
		t.Errorf("repeat: %s", events)
	}
	b.stop()
}
