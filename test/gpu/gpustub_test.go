//go:build gpustub

package gpu

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/provider"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// runtimeDir makes a folder with ONNX Runtime and its providers, and below it the stubs. The process has one ONNX
// Runtime, so it is made once.
var runtimeDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "edgewise-gpustub-")
	if err != nil {
		panic(err)
	}
	runtimeDir = dir
	_ = os.Setenv("FAKEGPU_CONTROL", filepath.Join(dir, "control"))
	if _, err := fakegpu.Open(filepath.Join(dir, "control")); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func prepare(t *testing.T) string {
	t.Helper()
	library := filepath.Join(runtimeDir, "libonnxruntime.so.1")
	if _, err := os.Stat(library); err == nil {
		return library
	}
	place(t, real.Library(t), library)
	cache := filepath.Join(real.Root(t), ".cache", "gpu")
	for _, name := range []string{provider.Shared, provider.CUDA, provider.TensorRT} {
		place(t, filepath.Join(cache, name), filepath.Join(runtimeDir, name))
	}
	stubs := filepath.Join(runtimeDir, "cuda")
	if err := os.MkdirAll(stubs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeStubs(filepath.Join(cache, provider.CUDA), stubs); err != nil {
		t.Fatal(err)
	}
	return library
}

func place(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatalf("%v: run \"make runtime runtime-gpu\"", err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func version(m *edgewise.Model) *edgewise.Version {
	m.Name, m.Platform = "m", onnx.Platform
	return &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: m}
}

// load loads a model on the fake GPU through the real provider, and returns what the box logged and what the provider
// did.
func load(t *testing.T, model *onnxgen.Model, m *edgewise.Model) (edgewise.Instance, *bytes.Buffer, string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := model.Save(dir); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(dir, "trace")
	t.Setenv("GPUSTUB_LOG", trace)
	log := &bytes.Buffer{}
	b := onnx.New(onnx.Config{
		Library: prepare(t), GPU: onnx.GPU{Driver: fakegpu.Build(t, "libcuda")},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	i, err := b.Load(t.Context(), version(m), dir, edgewise.Device{Kind: edgewise.GPU})
	return i, log, trace, err
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheMachineIsFoundUsable(t *testing.T) {
	r := gpu.Find(gpu.Config{Driver: fakegpu.Build(t, "libcuda"), Runtime: prepare(t)})
	if r.Reason != "" || r.Toolkit != 13 || r.Code != "7.5, 8.0, 8.6, 8.9, 9.0, 12.0" || r.CuDNN() {
		t.Errorf("%+v", r)
	}
}

func TestBatchesRunOnTheRingsOwnStream(t *testing.T) {
	i, log, trace, err := load(t, onnxgen.MLP(1), &edgewise.Model{MaxBatchSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cudnn_conv_algo_search=HEURISTIC", "arena_extend_strategy=kSameAsRequested",
		"has_user_compute_stream=1",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the options in force lack %s:\n%s", want, log)
		}
	}
	warmed := content(t, trace)
	if strings.Contains(warmed, "memcpyAsync") || strings.Contains(warmed, "stream\n") {
		t.Errorf("the provider copied what is on the device, or made a stream of its own:\n%s", warmed)
	}
	m := onnxgen.MLP(1)
	in := edgewise.Tensor{
		Name: m.Graph.Inputs[0].Name, Type: edgewise.FP32, Shape: edgewise.Shape{3, 64},
		Data: make([]byte, 3*64*4),
	}
	i.(interface{ AllowPadding() }).AllowPadding() // three rows are computed as four
	r, err := i.Run(context.Background(), []edgewise.Tensor{in}, []string{m.Graph.Outputs[0].Name}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Outputs[0].Data) != 3*10*4 || r.Outputs[0].Shape[0] != 3 {
		t.Errorf("output %v of %d bytes", r.Outputs[0].Shape, len(r.Outputs[0].Data))
	}
	r.Free()
	if ran := strings.TrimPrefix(content(t, trace), warmed); strings.Contains(ran, "memcpy") ||
		strings.Contains(ran, "malloc") || strings.Contains(ran, "wait for") {
		t.Errorf("a bound run copied, took memory or waited:\n%s", ran)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

func TestThePlainWayCopiesAndWaits(t *testing.T) {
	i, _, trace, err := load(t, onnxgen.MLP(1),
		&edgewise.Model{
			MaxBatchSize: 8,
			Parameters:   map[string]edgewise.ModelParam{"gpu_batch_buckets": {StringValue: "off"}},
		})
	if err != nil {
		t.Fatal(err)
	}
	m := onnxgen.MLP(1)
	in := edgewise.Tensor{
		Name: m.Graph.Inputs[0].Name, Type: edgewise.FP32, Shape: edgewise.Shape{3, 64},
		Data: make([]byte, 3*64*4),
	}
	r, err := i.Run(context.Background(), []edgewise.Tensor{in}, []string{m.Graph.Outputs[0].Name}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
	if ran := content(t, trace); !strings.Contains(ran, "memcpyAsync 768 ") ||
		!strings.Contains(ran, "memcpyAsync 120 ") || !strings.Contains(ran, "wait for") {
		t.Errorf("a plain run did not copy 768 bytes in and 120 out and wait:\n%s", ran)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

func TestTwoInstances(t *testing.T) {
	i, _, _, err := load(t, onnxgen.MLP(1),
		&edgewise.Model{MaxBatchSize: 4, InstanceGroup: []edgewise.InstanceGroup{{Kind: edgewise.KindGPU, Count: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

func TestGraphsAreCapturedForEveryBucket(t *testing.T) {
	i, _, trace, err := load(t, onnxgen.MLP(1),
		&edgewise.Model{
			MaxBatchSize: 2,
			Optimization: &edgewise.Optimization{CUDA: &edgewise.CUDAOptimization{Graphs: true}},
		})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(content(t, trace), "capture\n"); n != 4 {
		t.Errorf("%d graphs captured, want one for each of 2 buckets in each of 2 slots", n)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

func TestConvolutionsAreRefusedWithoutCuDNN(t *testing.T) {
	_, _, _, err := load(t, onnxgen.MobileNetV2(1), &edgewise.Model{MaxBatchSize: 1})
	if edgewise.KindOf(err) != edgewise.Unsupported ||
		!strings.Contains(err.Error(), "Conv, GlobalAveragePool need cuDNN, and libcudnn.so.9 was not found") {
		t.Errorf("got %v", err)
	}
}

func TestALoadThatFindsNoMemoryFails(t *testing.T) {
	t.Setenv("GPUSTUB_OOM", "1")
	_, _, _, err := load(t, onnxgen.MLP(1), &edgewise.Model{MaxBatchSize: 4})
	if err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v", err)
	}
}

func TestTensorRTThatIsNotThereIsRefused(t *testing.T) {
	_, _, _, err := load(t, onnxgen.MLP(1), &edgewise.Model{MaxBatchSize: 4, Optimization: &edgewise.Optimization{
		ExecutionAccelerators: &edgewise.ExecutionAccelerators{GPU: []edgewise.Accelerator{{Name: "tensorrt"}}},
	}})
	if err == nil || !strings.Contains(err.Error(), "the provider for TensorRT does not start") {
		t.Errorf("got %v", err)
	}
}
