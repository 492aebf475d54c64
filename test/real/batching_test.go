package real

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// TestBatchesAreMadeWhereTheyPay loads a tiny dense network, which gains much from batches, and a convolutional one,
// which gains nothing on a CPU, and looks at what the trial decided. A trial is a measurement, and a busy machine can
// mislead one of them.
func TestBatchesAreMadeWhereTheyPay(t *testing.T) {
	tests := []struct {
		name    string
		model   *onnxgen.Model
		dims    edgewise.Shape
		classes int64
		pays    bool
	}{
		{"dense", onnxgen.MLP(1), edgewise.Shape{64}, 10, true},
		{"convolutional", onnxgen.MobileNetV2(1), edgewise.Shape{3, 224, 224}, 1000, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := edgewise.ModelInput{Name: test.model.Graph.Inputs[0].Name, DataType: edgewise.FP32, Dims: test.dims}
			for range trials {
				if pays(t, test.model, in, test.classes) == test.pays {
					return
				}
			}
			t.Errorf("batches pay: want %v, and %d trials said otherwise", test.pays, trials)
		})
	}
}

// trials is how often a model is loaded until its trial decides as it should.
const trials = 8

// pays loads a model and tells whether its requests are batched.
func pays(t *testing.T, m *onnxgen.Model, in edgewise.ModelInput, classes int64) bool {
	t.Helper()
	s := load(t, m, in, classes)
	serve(t, s, in, 4)
	closed := s.Statistics().Closed
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return closed["off"] == 0
}

// load puts a scheduler with a dynamic batcher before a generated model on ONNX Runtime, and warms it up.
func load(t *testing.T, m *onnxgen.Model, in edgewise.ModelInput, classes int64) *sched.Scheduler {
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{
		Name: "m", Platform: onnx.Platform, MaxBatchSize: 16, DynamicBatching: &edgewise.DynamicBatching{},
		Input:      []edgewise.ModelInput{in},
		Output:     []edgewise.ModelOutput{{Name: m.Graph.Outputs[0].Name, DataType: edgewise.FP32, Dims: edgewise.Shape{classes}}},
		Parameters: map[string]edgewise.ModelParam{"intra_op_thread_count": {StringValue: "1"}},
	}}
	instance, err := onnx.New(onnx.Config{Library: Library(t), Logger: slog.New(slog.DiscardHandler)}).Load(t.Context(), v,
		dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	s := sched.New(v, instance, sched.Config{Instances: 2, MaxQueue: 100, Logger: slog.New(slog.DiscardHandler)})
	if err := s.Warm(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve sends n requests at once.
func serve(t *testing.T, s *sched.Scheduler, in edgewise.ModelInput, n int) {
	shape := append(edgewise.Shape{1}, in.Dims...)
	elements, _ := shape.Elements()
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			data := make([]byte, elements*in.DataType.Size())
			r, err := s.Infer(context.Background(),
				&edgewise.Request{Inputs: []edgewise.Tensor{{Name: in.Name, Type: in.DataType, Shape: shape, Data: data}}})
			if err != nil {
				t.Error(err)
				return
			}
			r.Release()
		})
	}
	clients.Wait()
}
