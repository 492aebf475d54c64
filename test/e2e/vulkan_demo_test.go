package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/real"
)

var vulkanDemo = flag.Bool("e2e.vulkan-demo", false, "serve the demo's models on the Vulkan device")

// demoTolerance is vulkanTolerance for the demo's models, whose networks are deep.
const demoTolerance = 1e-3

// demoShapes are the inputs that the demo's models are asked with.
var demoShapes = map[string]map[string][]int64{
	"face":          {"input:0": {1, 256, 256, 3}},
	"ocr_detect":    {"x": {1, 3, 64, 96}},
	"ocr_direction": {"x": {2, 3, 48, 192}},
	"ocr_recognize": {"x": {1, 3, 48, 96}},
	"vad":           {"input": {1, 576}, "state": {2, 1, 128}, "sr": {1}},
	"vad_stream":    {"input": {1, 576}, "sr": {1}},
}

// TestDemoModelsOnVulkanAnswerAsTheCPU serves each model of the demo twice, on the CPU and on a Vulkan device.
func TestDemoModelsOnVulkanAnswerAsTheCPU(t *testing.T) {
	if !*vulkanDemo {
		t.Skip("\"make vulkan-test\" runs it: on a software device it takes minutes")
	}
	dir := t.TempDir()
	for name := range demoShapes {
		demoTwin(t, dir, name)
	}
	settings := append(onVulkan(t, vulkanLoader, *vulkanDriver), "--import", dir, "--set", "engine.request_timeout=5m",
		"--set", "http.write_timeout=5m", "--set", "engine.load_cpu_time=30m", "--set", "engine.load_timeout=30m")
	b := serve(t, t.TempDir(), settings...)
	b.awaitWithin(15 * time.Minute)
	for name, shapes := range demoShapes {
		body := demoRequest(t, name, shapes)
		want, got := b.infer(name, body), b.infer(name+"_gpu", body)
		if len(want) == 0 || len(want) != len(got) {
			t.Errorf("%s: %d outputs, want %d", name, len(got), len(want))
		}
		for output := range want {
			d := relative(want[output], got[output])
			t.Logf("%s: output %s differs by %.2g of its largest number", name, output, d)
			if d > demoTolerance {
				t.Errorf("%s: output %s differs by %g of its largest number", name, output, d)
			}
		}
	}
	_, devices := b.send(http.MethodGet, "/api/v1/devices", nil)
	contains(t, "devices", devices, `{"name":"face_gpu","version":1}`, `{"name":"vad_stream_gpu","version":1}`)
	b.terminate()
}

// demoTwin copies a model of the demo into a repository, for the CPU, and by another name for a GPU.
func demoTwin(t *testing.T, dir, name string) {
	t.Helper()
	from := filepath.Join(real.Models(t), name)
	for to, kind := range map[string]string{name: "KIND_CPU", name + "_gpu": "KIND_GPU"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, to, "config.pbtxt")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), fmt.Sprintf("name: %q\n", name), fmt.Sprintf("name: %q\n", to), 1) +
			"\ninstance_group { kind: " + kind + " }\nparameters { key: \"gpu_batch_buckets\" value { string_value: \"2\" } }\n"
		if strings.Contains(changed, "max_batch_size: 0") || strings.Contains(changed, "max_batch_size: 1\n") {
			changed = strings.Replace(changed, `string_value: "2"`, `string_value: "1"`, 1)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func demoRequest(t *testing.T, name string, shapes map[string][]int64) string {
	t.Helper()
	type tensor struct {
		Name     string  `json:"name"`
		Datatype string  `json:"datatype"`
		Shape    []int64 `json:"shape"`
		Data     any     `json:"data"`
	}
	request := map[string]any{}
	var inputs []tensor
	for input, shape := range shapes {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		if input == "sr" {
			inputs = append(inputs, tensor{input, "INT64", shape, []int64{16000}})
			continue
		}
		rng, values := rand.New(rand.NewPCG(uint64(n), 1)), make([]float32, n)
		for i := range values {
			values[i] = 2*rng.Float32() - 1
		}
		inputs = append(inputs, tensor{input, "FP32", shape, values})
	}
	if request["inputs"] = inputs; name == "vad_stream" {
		request["parameters"] = map[string]any{"sequence_id": 1, "sequence_start": true, "sequence_end": true}
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
