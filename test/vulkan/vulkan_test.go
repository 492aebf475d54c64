package vulkan

import (
	"encoding/binary"
	"flag"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/vulkan"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

var (
	models = flag.Int("vulkan.models", 30, "how many generated models are compared")
	driver = flag.String("vulkan.driver", "/usr/lib/chromium/vk_swiftshader_icd.json", "manifest of the Vulkan driver")
	loader = flag.String("vulkan.loader", "/usr/lib/chromium/libvulkan.so.1", "the Vulkan loader")
)

// tolerance bounds the difference between the CPU and the device, relative to the largest number of an output.
const tolerance = 1e-4

// device makes a backend of which a process, this one, has one.
func device(t *testing.T) *onnx.Backend {
	t.Helper()
	for _, path := range []string{*loader, *driver} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v: by default it comes with Debian's chromium: sudo apt-get install chromium", err)
		}
	}
	for _, setting := range vulkan.Environment(*driver) {
		key, value, _ := strings.Cut(setting, "=")
		t.Setenv(key, value)
	}
	return onnx.New(onnx.Config{Library: real.Library(t), GPU: onnx.GPU{Loader: *loader}, Logger: slog.New(slog.DiscardHandler)})
}

// TestGeneratedModelsAnswerAsOnTheCPU runs generated models, and one of which the provider computes wrong numbers in its
// own layout, with batches that fill a size and batches that are filled up.
func TestGeneratedModelsAnswerAsOnTheCPU(t *testing.T) {
	b := device(t)
	for seed := range *models {
		m, row := onnxgen.Chain(uint64(seed))
		compare(t, b, uint64(seed), m, row)
	}
	m, row := onnxgen.OneDimension()
	compare(t, b, 1000, m, row)
}

func compare(t *testing.T, b *onnx.Backend, seed uint64, m *onnxgen.Model, row []int64) {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{
		Name: "m", MaxBatchSize: 4, Parameters: map[string]edgewise.ModelParam{"gpu_batch_buckets": {StringValue: "4"}},
	}}
	var want []string
	for _, out := range m.Graph.Outputs {
		want = append(want, out.Name)
	}
	load := func(on edgewise.Device) edgewise.Instance {
		i, err := b.Load(t.Context(), v, dir, on)
		if err != nil {
			t.Fatalf("model %d on %v: %v", seed, on, err)
		}
		if pads, ok := i.(interface{ AllowPadding() }); ok {
			pads.AllowPadding()
		}
		return i
	}
	cpu, gpu := load(edgewise.Device{}), load(edgewise.Device{Kind: edgewise.Vulkan})
	for _, rows := range []int64{4, 3, 1} {
		in := []edgewise.Tensor{input(seed, append(edgewise.Shape{rows}, row...))}
		reference, err := cpu.Run(t.Context(), in, want, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := gpu.Run(t.Context(), in, want, edgewise.RunOptions{})
		if err != nil {
			t.Fatalf("model %d with %d rows: %v", seed, rows, err)
		}
		for i := range want {
			if !got.Outputs[i].Shape.Equal(reference.Outputs[i].Shape) {
				t.Errorf("model %d with %d rows: output %s is %v, want %v", seed, rows, want[i], got.Outputs[i].Shape, reference.Outputs[i].Shape)
			} else if d := difference(reference.Outputs[i].Data, got.Outputs[i].Data); d > tolerance {
				t.Errorf("model %d with %d rows: output %s differs by %g of its largest number", seed, rows, want[i], d)
			}
		}
		reference.Free()
		got.Free()
	}
	if err := cpu.Close(); err != nil {
		t.Error(err)
	}
	if err := gpu.Close(); err != nil {
		t.Error(err)
	}
}

// input is a tensor of numbers from -1 to 1.
func input(seed uint64, shape edgewise.Shape) edgewise.Tensor {
	n, _ := shape.Elements()
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	data := make([]byte, 0, 4*n)
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(2*rng.Float32()-1))
	}
	return edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: shape, Data: data}
}

func difference(want, got []byte) float64 {
	most, largest := 0.0, 1e-6
	for i := 0; i+4 <= len(want); i += 4 {
		a := float64(math.Float32frombits(binary.LittleEndian.Uint32(want[i:])))
		b := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[i:])))
		if math.IsNaN(b) {
			return math.Inf(1)
		}
		most, largest = max(most, math.Abs(a-b)), max(largest, math.Abs(a))
	}
	return most / largest
}
