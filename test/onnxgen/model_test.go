package onnxgen_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func inspect(t *testing.T, m *onnxgen.Model) *edgewise.Inspection {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	f, err := onnxfile.Read(dir, "model.onnx", onnxfile.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return &f.Inspection
}

// The published networks have 3,504,872 and 25,557,032 parameters; folding batch normalisation takes one of two away
// for each channel, and each Clip of MobileNetV2 has two constants.
func TestModelsHaveTheParametersOfTheirArchitecture(t *testing.T) {
	for _, c := range []struct {
		name       string
		model      *onnxgen.Model
		parameters int64
		nodes      int
	}{
		{"MLP", onnxgen.MLP(1), 64*128 + 128 + 128*128 + 128 + 128*64 + 64 + 64*10 + 10, 7},
		{"MobileNetV2", onnxgen.MobileNetV2(1), 3_504_872 - 17_056 + 35*2, 100},
		{"MobileNetV2 of pixels", onnxgen.MobileNetV2(1).FromPixels(), 3_504_872 - 17_056 + 35*2 + 2, 104},
		{"ResNet50", onnxgen.ResNet50(1), 25_557_032 - 26_560, 122},
		{"External", onnxgen.External(), 10, 1},
		{"AddSub", onnxgen.AddSub(), 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := inspect(t, c.model)
			if got.Parameters != c.parameters || got.Nodes != c.nodes {
				t.Errorf("%d parameters in %d nodes, want %d in %d", got.Parameters, got.Nodes, c.parameters, c.nodes)
			}
		})
	}
}

func TestWeightsHasTheBytesAskedFor(t *testing.T) {
	for _, c := range []struct{ ask, want int64 }{{1, 4096}, {4096, 4096}, {5000, 8192}, {4 << 20, 4 << 20}, {9<<20 + 1, 9<<20 + 4096}} {
		if got := inspect(t, onnxgen.Weights(c.ask, 1)).ParameterBytes; got != c.want {
			t.Errorf("asked for %d bytes, got %d, want %d", c.ask, got, c.want)
		}
	}
}

func TestModelsAreDeterministic(t *testing.T) {
	if !bytes.Equal(onnxgen.MLP(1).Bytes(), onnxgen.MLP(1).Bytes()) {
		t.Error("one seed gives two models")
	}
	if bytes.Equal(onnxgen.MLP(1).Bytes(), onnxgen.MLP(2).Bytes()) {
		t.Error("two seeds give one model")
	}
}

func TestSaveWritesTheModelAndItsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	m := onnxgen.External()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"model.onnx": m.Bytes(), "weights.bin": m.Files["weights.bin"]} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want %d bytes", name, len(got), err, len(want))
		}
	}
}

func TestSlowLoopsInProportion(t *testing.T) {
	one, ten := onnxgen.Slow(1).Bytes(), onnxgen.Slow(10).Bytes()
	if len(one) != len(ten) || bytes.Equal(one, ten) {
		t.Errorf("models of %d and %d bytes: want the trip count alone to differ", len(one), len(ten))
	}
}
