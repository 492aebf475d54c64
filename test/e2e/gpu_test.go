package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// TestTheSameProgramServesWithAndWithoutAGPU runs the built program on this machine as it is, and with a CUDA driver
// that the test made. In both it serves on the CPU, says the one reason why no GPU is used, and refuses a model that
// asks for one with that reason.
func TestTheSameProgramServesWithAndWithoutAGPU(t *testing.T) {
	t.Parallel()
	control, err := fakegpu.Open(filepath.Join(t.TempDir(), "control"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := brokenDriver(t, t.TempDir(), "crash", "__attribute__((constructor)) static void begin(void) { abort(); }")
	broken := strings.TrimSuffix(manifest, ".json") + ".so"
	for _, test := range []struct {
		name, driver string
		doctor       []string
		reason       string
		metrics      string
	}{
		{
			"no driver", "/nonexistent/libcuda.so.1",
			[]string{"gpu        none used: no CUDA driver was found"},
			"no CUDA driver was found", `edgewise_device_used{device="cpu",gpu_uuid=""} 1`,
		},
		{
			"a driver that ends its process", broken,
			[]string{"gpu        none used: the process that asked the driver of CUDA ended: exit status 2: SIGABRT", "ONNX Runtime 1."},
			"the process that asked the driver of CUDA ended", `edgewise_device_used{device="cpu",gpu_uuid=""} 1`,
		},
		{
			"a GPU", fakegpu.Build(t, "libcuda"),
			[]string{
				"gpu:0      Fake GPU 0, compute capability 9.0, 1.0 GiB; not used: ONNX Runtime's provider for CUDA is missing",
				"driver     CUDA driver 13.0 (",
			},
			"ONNX Runtime's provider for CUDA is missing",
			`edgewise_device_used{device="gpu:0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000"} 0`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			environment := []string{"FAKEGPU_CONTROL=" + control.Path}
			out, stderr, code := run(t, environment, "doctor", "--set", "gpu.driver="+test.driver, "--set",
				"data_dir="+t.TempDir(), "--set", "store.reserve_bytes=0")
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
			if status, text := b.send(http.MethodPost, "/api/v1/models/cat/versions", biased(1).Bytes(), "Content-Type",
				mimeFile); status != http.StatusCreated {
				t.Errorf("upload: %d %s", status, text)
			}
			_, page := b.send(http.MethodGet, "/metrics", nil)
			contains(t, "metrics", page, test.metrics)
			b.mapsNo("libvulkan", "libcuda")
			b.terminate()
		})
	}
}

// mapsNo checks that neither the box nor a process of a model has a library of such a name.
func (b *box) mapsNo(names ...string) {
	b.t.Helper()
	children, err := processes.Children(b.cmd.Process.Pid)
	if err != nil || len(children) == 0 {
		b.t.Fatalf("%d processes of models: %v", len(children), err)
	}
	for _, pid := range append(children, b.cmd.Process.Pid) {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			b.t.Fatal(err)
		}
		for _, name := range names {
			if strings.Contains(string(maps), name) {
				b.t.Errorf("process %d has loaded %s", pid, name)
			}
		}
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

// TestWhatAGPUTellsIsInTheMetrics runs the built program with a fake driver and a fake NVML. Triton's names are there
// for what NVML tells, and only for that; the administration says the same.
func TestWhatAGPUTellsIsInTheMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	control, err := fakegpu.Open(filepath.Join(dir, "control"))
	if err != nil {
		t.Fatal(err)
	}
	told := filepath.Join(dir, "nvml")
	if err := os.WriteFile(told, []byte("utilization 83\nmemory_utilization 20\nmemory_total 24152899584\nmemory_used "+
		"1073741824\npower 68250\nreasons 0x20\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serveWith(t, []string{"FAKEGPU_CONTROL=" + control.Path, "FAKEGPU_NVML=" + told}, t.TempDir(), "--set",
		"gpu.driver="+fakegpu.Build(t, "libcuda"), "--set", "gpu.telemetry="+fakegpu.Build(t, "libnvidia-ml"))
	b.awaitReady()
	const uuid = `{gpu_uuid="GPU-00000000-0000-0000-0000-000000000000"}`
	var page string
	for end := time.Now().Add(time.Minute); !strings.Contains(page, "nv_gpu_utilization") &&
		time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, page = b.send(http.MethodGet, "/metrics", nil)
	}
	contains(t, "metrics", page, "nv_gpu_utilization"+uuid+" 0.83", "nv_gpu_memory_total_bytes"+uuid+" 24152899584",
		"nv_gpu_memory_used_bytes"+uuid+" 1073741824", "nv_gpu_power_usage"+uuid+" 68.25")
	for _, absent := range []string{"nv_gpu_power_limit", "nv_energy_consumption", "edgewise_device_fan"} {
		if strings.Contains(page, absent) {
			t.Errorf("%s is there, and NVML does not tell it", absent)
		}
	}
	_, devices := b.send(http.MethodGet, "/api/v1/devices", nil)
	contains(t, "devices", devices, `"name":"gpu:0"`, `"utilization":0.83`, `"sw_thermal_slowdown"`)
	b.terminate()
}
