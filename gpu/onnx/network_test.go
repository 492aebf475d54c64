package onnx

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// late runs a session of ONNX Runtime on the CPU, over the fake device's memory, as a provider would on a stream: when
// the stream has got there.
type late struct {
	*ort.Binding
	compute *cuda.Stream
}

func (l late) Run() error {
	if err := l.compute.Synchronize(); err != nil {
		return err
	}
	return l.Binding.Run()
}

const features, classes = 64, 10

// accelerate loads a dense network on the CPU and puts the ring, with the fake device, in front of it.
func accelerate(t *testing.T, ctx *cuda.Ctx, buckets []int, slots int) (*accelerated, *ort.Session) {
	t.Helper()
	dir := t.TempDir()
	model := onnxgen.MLP(1)
	if err := model.Save(dir); err != nil {
		t.Fatal(err)
	}
	m := &edgewise.Model{Name: "mlp", Platform: Platform, MaxBatchSize: int32(buckets[len(buckets)-1])}
	backend := New(Config{Library: real.Library(t), Logger: slog.New(slog.DiscardHandler)})
	inspection, err := backend.Inspect(t.Context(), dir, m)
	if err != nil {
		t.Fatal(err)
	}
	lib, err := backend.Library()
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), names(inspection.Inputs), names(inspection.Outputs),
		ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, out, ok := plans(m, inspection, buckets[len(buckets)-1], slots)
	if !ok {
		t.Fatal("the model's sizes are not known")
	}
	r, err := newRing(ringConfig{
		Context: ctx, shapes: shapes{Inputs: in, Outputs: out, Buckets: buckets, Batched: true}, Slots: slots,
		Bind: func(compute *cuda.Stream, inputs, outputs []ort.Bound, _ int) (bound, error) {
			b, err := s.NewBinding(ort.BindingConfig{Inputs: inputs, Outputs: outputs, Memory: ort.HostMemory})
			return late{b, compute}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := newAccelerated(edgewise.ModelID{Name: "mlp", Version: 1}, edgewise.Device{Kind: edgewise.GPU}, ctx,
		[]edgewise.Instance{s}, []*ring{r})
	a.AllowPadding()
	return a, s
}

func rows(n int, seed float32) edgewise.Tensor {
	t := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(n), features}}
	for i := range n * features {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(seed+float32(math.Sin(float64(i)*0.7))))
	}
	return t
}

// expected is what the plain way on the CPU makes of a batch.
func expected(t *testing.T, s *ort.Session, in edgewise.Tensor) []byte {
	t.Helper()
	r, err := s.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	return append([]byte(nil), r.Outputs[0].Data...)
}

func outputName(*ort.Session) string { return onnxgen.MLP(1).Graph.Outputs[0].Name }

func inputName() string { return onnxgen.MLP(1).Graph.Inputs[0].Name }

func near(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
		return
	}
	for i := 0; i < len(want); i += 4 {
		a, b := math.Float32frombits(binary.LittleEndian.Uint32(got[i:])), math.Float32frombits(binary.LittleEndian.Uint32(want[i:]))
		if !(math.Abs(float64(a-b)) <= 1e-5) {
			t.Errorf("element %d: %v, want %v", i/4, a, b)
			return
		}
	}
}
