package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// kserveBox starts a box with the variables of the runtime for KServe, as for an InferenceService that is called sorter.
func kserveBox(t *testing.T, models string) *box {
	t.Helper()
	text, err := os.ReadFile("../../configs/kubernetes/kserve/runtime.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var environment []string
	for _, found := range regexp.MustCompile(`\{name: (EDGEWISE_\w+), value: (.+)\}`).FindAllStringSubmatch(string(text), -1) {
		value := strings.ReplaceAll(strings.Trim(found[2], `"`), "{{.Name}}", "sorter")
		environment = append(environment, found[1]+"="+value)
	}
	if len(environment) < 5 {
		t.Fatalf("the runtime has the variables %v", environment)
	}
	b := serveWith(t, environment, t.TempDir(), "--config", "../../configs/oci/appliance.yaml", "--set", "repository.folders="+models,
		"--set", "shutdown.delay=0s")
	b.awaitReady()
	return b
}

// TestKServeBringsOneModelOrSeveral does to a folder and a box what KServe's storage initializer and its agent do.
func TestKServeBringsOneModelOrSeveral(t *testing.T) {
	t.Parallel()
	flat := t.TempDir()
	if err := biased(1).Save(flat); err != nil {
		t.Fatal(err)
	}
	b := kserveBox(t, flat)
	b.exchange(t, wire{"one model", "POST", "/v2/models/sorter/infer", zeros, nil, 200, "[1,1,1,1]"})
	b.stop()

	shared := t.TempDir()
	b = kserveBox(t, shared)
	b.exchange(t, wire{"none is there", "POST", "/v2/repository/models/cat/load", "", nil, 400, "cat"})
	for name, model := range map[string]*onnxgen.Model{"cat": biased(2), "dog": biased(3)} {
		folder := filepath.Join(shared, name, "1")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := model.Save(folder); err != nil {
			t.Fatal(err)
		}
		b.exchange(t, wire{"load", "POST", "/v2/repository/models/" + name + "/load", "", nil, 200, ""})
	}
	b.exchange(t, wire{"the first", "POST", "/v2/models/cat/infer", zeros, nil, 200, "[2,2,2,2]"})
	b.exchange(t, wire{"the second", "POST", "/v2/models/dog/infer", zeros, nil, 200, "[3,3,3,3]"})
	b.exchange(t, wire{"unload", "POST", "/v2/repository/models/cat/unload", "", nil, 200, ""})
	b.exchange(t, wire{"unloaded", "POST", "/v2/models/cat/infer", zeros, nil, 404, "cat"})
	b.exchange(t, wire{"the other", "POST", "/v2/models/dog/infer", zeros, nil, 200, "[3,3,3,3]"})
	b.stop()
}
