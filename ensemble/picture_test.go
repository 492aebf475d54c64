package ensemble

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// TestOnlyATensorThatOneStepReadsIsTakenAsPictures builds ensembles in which a picture's tensor is read in different
// ways, and looks what the step that makes it is told.
func TestOnlyATensorThatOneStepReadsIsTakenAsPictures(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(m *edgewise.Model)
		takes  bool // the reader's version does
		want   []string
		batch  int32 // max_batch_size of the reader
	}{
		{name: "one reader", change: func(*edgewise.Model) {}, takes: true, want: []string{"y"}},
		{name: "a reader that batches", change: func(*edgewise.Model) {}, takes: true, want: []string{"y"}, batch: 4},
		{name: "a reader that takes none", change: func(*edgewise.Model) {}},
		{name: "an output of the ensemble", takes: true, change: func(m *edgewise.Model) {
			m.Output = append(m.Output, edgewise.ModelOutput{Name: "t", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}})
		}},
		{name: "two readers", takes: true, change: func(m *edgewise.Model) {
			second := m.EnsembleScheduling.Step[1]
			second.OutputMap = map[string]string{"y": "w"}
			m.EnsembleScheduling.Step = append(m.EnsembleScheduling.Step, second)
			m.Output = append(m.Output, edgewise.ModelOutput{Name: "w", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}})
		}},
		{name: "a condition looks at it", takes: true, change: func(m *edgewise.Model) {
			m.EnsembleScheduling.Step[1].Condition = &edgewise.EnsembleCondition{Tensor: "t", Operator: greater, Value: -1, Otherwise: stop}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := newZoo(t)
			var told []string
			pass := func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
				if req.Model.Name == "prepare" {
					told = req.Pictures
				} else if len(req.Pictures) > 0 {
					t.Errorf("%s is told of another step's reader", req.Model.Name)
				}
				out := req.Inputs[0]
				out.Name = "y"
				return []edgewise.Tensor{out}, nil
			}
			z.add("prepare", 0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, pass)
			z.add("net", test.batch, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, pass)
			m := model("pipeline", 0, []string{"in:FP32[-1]"}, []string{"out:FP32[-1]"})
			m.Platform = "ensemble"
			m.EnsembleScheduling = &edgewise.EnsembleScheduling{Step: []edgewise.EnsembleStep{
				{
					ModelName: "prepare", ModelVersion: 1, InputMap: map[string]string{"x": "in"},
					OutputMap: map[string]string{"y": "t"}, Pinned: &edgewise.EnsemblePin{Version: 1},
				},
				{
					ModelName: "net", ModelVersion: 1, InputMap: map[string]string{"x": "t"}, OutputMap: map[string]string{"y": "out"},
					Pinned: &edgewise.EnsemblePin{Version: 1},
				},
			}}
			test.change(m)
			var parts []*edgewise.Version
			for _, s := range m.EnsembleScheduling.Step {
				parts = append(parts, &edgewise.Version{ID: edgewise.ModelID{Name: s.ModelName, Version: 1}, Model: z.models[s.ModelName]})
			}
			e, err := New(&edgewise.Version{ID: edgewise.ModelID{Name: "pipeline", Version: 1}, Model: m}, parts, Config{
				Infer: z, Check: func(*edgewise.Request) error { return nil }, Logger: slog.New(slog.DiscardHandler),
				Pictures: func(id edgewise.ModelID, input string) bool {
					return test.takes && id == edgewise.ModelID{Name: "net", Version: 1} && input == "x"
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Infer(t.Context(), &edgewise.Request{
				Pictures: []string{"out", "y"},
				Inputs:   []edgewise.Tensor{{Name: "in", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: []byte{0, 0, 0, 0}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
			if !slices.Equal(told, test.want) {
				t.Errorf("the step is told of %v, want %v", told, test.want)
			}
		})
	}
}
