package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// The software Vulkan of the tests: SwiftShader and a loader out of Debian's chromium, in which the page is tested.
const (
	vulkanLoader = "/usr/lib/chromium/libvulkan.so.1"
	swiftShader  = "/usr/lib/chromium/vk_swiftshader_icd.json"
)

// onVulkan are settings with which a box uses software devices.
func onVulkan(t *testing.T, loader string, drivers ...string) []string {
	t.Helper()
	for _, path := range []string{vulkanLoader, swiftShader} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v: it comes with Debian's chromium: sudo apt-get install chromium", err)
		}
	}
	return []string{
		"--set", "gpu.vulkan=" + loader, "--set", "gpu.vulkan_drivers=" + strings.Join(drivers, ","), "--set", "gpu.software=true",
	}
}

// vulkanTolerance bounds the difference between the CPU and a Vulkan device, relative to the largest output.
const vulkanTolerance = 1e-4

// TestAModelOnAVulkanDeviceAnswersAsTheCPU serves a network on a software Vulkan device and on the CPU, with single
// requests, batches that are filled up, and requests that come at the same time and are merged.
func TestAModelOnAVulkanDeviceAnswersAsTheCPU(t *testing.T) {
	t.Parallel()
	dir := repositoryOf(t, map[string]*onnxgen.Model{"gpu/1": onnxgen.MLP(1), "cpu/1": onnxgen.MLP(1)})
	for name, kind := range map[string]string{"gpu": "KIND_GPU", "cpu": "KIND_CPU"} {
		text := fmt.Sprintf("max_batch_size: 4\ndynamic_batching { max_queue_delay_microseconds: 1000 }\n"+
			"parameters { key: \"gpu_batch_buckets\" value { string_value: \"4\" } }\ninstance_group { kind: %s }\n", kind)
		if err := os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := serveReady(t, t.TempDir(), append(onVulkan(t, vulkanLoader, swiftShader), "--import", dir)...)
	var asking sync.WaitGroup
	for rows := 1; rows <= 4; rows++ {
		asking.Go(func() {
			body := numbers(rows, 64, uint64(rows))
			if difference := relative(b.infer("cpu", body)["output"], b.infer("gpu", body)["output"]); difference > vulkanTolerance {
				t.Errorf("%d rows: the outputs differ by %g of the largest", rows, difference)
			}
		})
	}
	asking.Wait()
	_, devices := b.send(http.MethodGet, "/api/v1/devices", nil)
	contains(t, "devices", devices, `"name":"vulkan:0","kind":"vulkan","description":"SwiftShader Device`,
		`"models":[{"name":"gpu","version":1}]`, `"used":true`, `"vendor":"Google","type":"software","driver":"SwiftShader`)
	_, page := b.send(http.MethodGet, "/metrics", nil)
	contains(t, "metrics", page, `edgewise_device_used{device="vulkan:0",gpu_uuid="`,
		`edgewise_device_memory_budget_bytes{device="vulkan:0"`)
	b.terminate()
}

// numbers is a request with rows of an input, of numbers from -1 to 1.
func numbers(rows, width int, seed uint64) string {
	values := make([]float32, rows*width)
	for i := range values {
		seed = seed*6364136223846793005 + 1442695040888963407
		values[i] = float32(seed>>40)/(1<<23) - 1
	}
	data, err := json.Marshal(values)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return fmt.Sprintf(`{"inputs":[{"name":"input","datatype":"FP32","shape":[%d,%d],"data":%s}]}`, rows, width, data)
}

// leastOutput is below what an output means: the CPU's own sigmoid has steps of 6e-8 near 0.
const leastOutput = 1e-3

// relative is the largest difference between two outputs, as a part of the largest number of the first, or of
// leastOutput when all are smaller.
func relative(want, got []float32) float64 {
	if len(want) != len(got) || len(want) == 0 {
		return math.Inf(1)
	}
	most, largest := 0.0, leastOutput
	for i := range want {
		most = max(most, math.Abs(float64(want[i])-float64(got[i])))
		largest = max(largest, math.Abs(float64(want[i])))
	}
	return most / largest
}

// TestBrokenVulkanDriversCostNobodyElse starts a box with a driver that ends the process that opens it, one that never
// answers, one that is no library and one that works. Each but the last has its reason, and the last one serves. A box that has
// nothing but a loader that is missing or broken, or a driver that hangs, starts, says so and serves on the CPU.
func TestBrokenVulkanDriversCostNobodyElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	drivers := []string{
		brokenDriver(t, dir, "crash", "__attribute__((constructor)) static void begin(void) { abort(); }"),
		brokenDriver(t, dir, "hang", "__attribute__((constructor)) static void begin(void) { for (;;) pause(); }"),
		filepath.Join(dir, "none.json"), swiftShader,
	}
	if err := os.WriteFile(drivers[2], []byte(`{"ICD": {"library_path": "./none.json"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := onVulkan(t, vulkanLoader, drivers...)
	doctor := []string{"doctor", "--set", "data_dir=" + t.TempDir(), "--set", "store.reserve_bytes=0"}
	out, stderr, code := run(t, nil, append(doctor, settings...)...)
	if code != 0 {
		t.Errorf("doctor exits with %d: %s", code, stderr)
	}
	contains(t, "doctor", out, "vulkan:0   SwiftShader Device", "crash.json: the process that asked the driver ended: exit status 2: SIGABRT",
		"hang.json: the driver did not answer within 30s", "none.json: the Vulkan driver does not start", "1 devices, "+vulkanLoader)
	for name, settings := range map[string][]string{
		"no Vulkan loader was found (/nonexistent/libvulkan.so.1)": onVulkan(t, "/nonexistent/libvulkan.so.1", swiftShader),
		"cannot be loaded as the Vulkan loader":                    onVulkan(t, drivers[2], swiftShader),
		"the process that asked the driver ended":                  onVulkan(t, strings.TrimSuffix(drivers[0], ".json")+".so", swiftShader),
		"the driver did not answer within 30s":                     onVulkan(t, vulkanLoader, drivers[1]),
	} {
		b := serveReady(t, t.TempDir(), append(settings, "--import", onGPU(t))...)
		status, text := b.send(http.MethodPost, "/v2/repository/models/needy/load", nil)
		if status != http.StatusServiceUnavailable {
			t.Errorf("load of a model that must run on a GPU: %d", status)
		}
		contains(t, "load", text, "asks for a GPU, and none is used: ", name)
		b.upload("cat", "", biased(1))
		b.wantBias("cat", "1", 1)
		b.terminate()
	}
}

// brokenDriver compiles a driver and returns its manifest.
func brokenDriver(t *testing.T, dir, name, source string) string {
	t.Helper()
	cc := exec.Command("cc", "-shared", "-fPIC", "-x", "c", "-o", filepath.Join(dir, name+".so"), "-")
	cc.Stdin = strings.NewReader("#include <stdlib.h>\n#include <unistd.h>\n" + source)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	manifest := filepath.Join(dir, name+".json")
	content := fmt.Sprintf(`{"file_format_version": "1.0.0", "ICD": {"library_path": "./%s.so", "api_version": "1.1.0"}}`, name)
	if err := os.WriteFile(manifest, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return manifest
}

// TestAVulkanModelInAnEnsembleAndUnderSwap runs a model on a Vulkan device as the first step of an ensemble, and pushes
// new versions of it while clients ask: no request fails, and each answer is of the version that it names.
func TestAVulkanModelInAnEnsembleAndUnderSwap(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), onVulkan(t, vulkanLoader, swiftShader)...)
	push := func(version int) {
		dir := save(t, biased(float32(version)))
		if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), []byte(tinyOnGPU), 0o600); err != nil {
			t.Fatal(err)
		}
		b.must("model", "push", "first", dir)
	}
	push(1)
	b.must("model", "push", "second", save(t, biased(10)))
	b.must("model", "push", "sums", write(t, "sums.pbtxt", []byte(ensembleConfig)))
	b.wantSums("sums", 1, 11)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := biasedVersion(http.DefaultClient, b.url, "first"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for version := 2; version <= 3; version++ {
		push(version)
	}
	close(stop)
	asking.Wait()
	b.wantBias("first", "3", 3)
	_, devices := b.send(http.MethodGet, "/api/v1/devices", nil)
	contains(t, "devices", devices, `{"name":"first","version":3}`)
	b.terminate()
}

// tinyOnGPU is the configuration of a tiny model on a GPU, whose batches are computed in one size: it loads fast.
const tinyOnGPU = "max_batch_size: 4\nparameters { key: \"gpu_batch_buckets\" value { string_value: \"4\" } }\n" +
	"instance_group { kind: KIND_GPU }\n"
