package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// TestTheSameProgramServesWithAndWithoutAGPU runs the built program on this machine as it is, and with a CUDA driver that the test
// made. In both it serves on the CPU, says the one reason why no GPU is used, and refuses a model that asks for one with that reason.
func TestTheSameProgramServesWithAndWithoutAGPU(t *testing.T) {
	t.Parallel()
	control, err := fakegpu.Open(filepath.Join(t.TempDir(), "control"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, driver string
		doctor       []string
		reason       string
		metrics      string
	}{
		{"no driver", "/nonexistent/libcuda.so.1", []string{"gpu        none used: no CUDA driver was found"}, "no CUDA driver was found", `edgewise_device_used{device="cpu",gpu_uuid=""} 1`},
		{"a GPU", fakegpu.Build(t, "libcuda"), []string{
			"gpu:0      Fake GPU 0, compute capability 9.0, 1.0 GiB; not used: ONNX Runtime's provider for CUDA is missing", "driver     CUDA driver 13.0 (",
		}, "ONNX Runtime's provider for CUDA is missing", `edgewise_device_used{device="gpu:0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000"} 0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			environment := []string{"FAKEGPU_CONTROL=" + control.Path}
			out, stderr, code := run(t, environment, "doctor", "--set", "gpu.driver="+test.driver, "--set", "data_dir="+t.TempDir(), "--set", "store.reserve_bytes=0")
			if code != 0 {
				t.Errorf("doctor exits with %d: %s", code, stderr)
			}
			contains(t, "doctor", out, test.doctor...)
			b := serveWith(t, environment, t.TempDir(), "--set", "gpu.driver="+test.driver, "--import", onGPU(t))
			b.awaitReady()
			contains(t, "log", b.output(), "no GPU is used", test.reason)
			status, text := b.send(http.MethodPost, "/v2/repository/models/needy/load", nil)
			if status != http.StatusServiceUnavailable {
				t.Errorf("load of a model that must run on a GPU: %d", status)
			}
			contains(t, "load", text, "asks for a GPU, and none is used: ", test.reason)
			if status, text := b.send(http.MethodPost, "/api/v1/models/cat/versions", biased(1).Bytes(), "Content-Type", mimeFile); status != http.StatusCreated {
				t.Errorf("upload: %d %s", status, text)
			}
			_, page := b.send(http.MethodGet, "/metrics", nil)
			contains(t, "metrics", page, test.metrics)
			b.terminate()
		})
	}
}

// onGPU makes a repository with a model that must run on a GPU.
func onGPU(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	version := filepath.Join(dir, "needy", "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "needy", "config.pbtxt"), []byte("instance_group { kind: KIND_GPU }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := biased(1).Save(version); err != nil {
		t.Fatal(err)
	}
	return dir
}
