package backends

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/api/backend/conformance"
)

// python is the interpreter that serves models; numpy is that of the same system.
const python = "/usr/bin/python3"

func needNumpy(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import numpy").CombinedOutput(); err != nil {
		t.Fatalf("missing: python3 with numpy (on Debian: sudo apt-get install python3-numpy): %v\n%s", err, out)
	}
}

func TestPythonModels(t *testing.T) {
	needNumpy(t)
	tests := exec.Command(python, "-B", "-m", "unittest", "discover", "-s", "../../backends/python/test")
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	if err := tests.Run(); err != nil {
		t.Fatal(err)
	}
}

func TestTheBackendOfPythonModelsKeepsEveryRule(t *testing.T) {
	needNumpy(t)
	folder, err := filepath.Abs("../../backends/python")
	if err != nil {
		t.Fatal(err)
	}
	k := conformance.Kit{
		Start: conformance.Command(folder, []string{python, "-u", "serve.py"}, nil, os.Stderr),
		Model: filepath.Join(folder, "conformance"),
	}
	seen := 0
	k.Run(t.Context(), nil, func(r conformance.Result) {
		seen++
		if r.Err != nil {
			t.Errorf("%s: %s: %v", r.Name, r.Rule, r.Err)
			return
		}
		t.Logf("%s in %v", r.Name, r.Took)
	})
	if seen != len(conformance.Names()) {
		t.Errorf("%d checks ran, want %d", seen, len(conformance.Names()))
	}
}
