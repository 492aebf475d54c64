package isolation

import (
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// scheduled puts a scheduler with batching in front of an instance.
func scheduled(i edgewise.Instance, inspection *edgewise.Inspection) *sched.Scheduler {
	m := &edgewise.Model{
		Name: "m", MaxBatchSize: 8,
		DynamicBatching: &edgewise.DynamicBatching{MaxQueueDelay: 2000, PreferredBatchSize: []int32{4}},
	}
	for _, in := range inspection.Inputs {
		m.Input = append(m.Input, edgewise.ModelInput{Name: in.Name, DataType: in.Type, Dims: in.Shape[1:]})
	}
	for _, out := range inspection.Outputs {
		m.Output = append(m.Output, edgewise.ModelOutput{Name: out.Name, DataType: out.Type, Dims: out.Shape[1:]})
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: m}
	return sched.New(v, i, sched.Config{Instances: 2, MaxQueue: 100, Logger: slog.New(slog.DiscardHandler)})
}

// TestTheCrossingCopiesNothing sends lone requests and batches through a scheduler to a child. Each request's bytes are
// copied once, by the scheduler into shared memory; from there on nothing is, neither in this process nor in the child.
func TestTheCrossingCopiesNothing(t *testing.T) {
	for name, m := range map[string]*onnxgen.Model{"MLP": onnxgen.MLP(1), "MobileNetV2": onnxgen.MobileNetV2(1)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := m.Save(dir); err != nil {
				t.Fatal(err)
			}
			_, there := backends(t)
			inspection, err := there.Inspect(t.Context(), dir, &edgewise.Model{Name: "m"})
			if err != nil {
				t.Fatal(err)
			}
			child := load(t, there, dir).(*runner.Instance)
			s := scheduled(child, inspection)
			in, _ := sample(inspection)
			for size := range int64(8) { // the first run of a size learns the shapes of its outputs
				r, err := s.Infer(t.Context(), &edgewise.Request{Inputs: repeated(in, size+1)})
				if err != nil {
					t.Fatal(err)
				}
				r.Release()
			}
			before := child.Stats()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 6 {
						r, err := s.Infer(t.Context(), &edgewise.Request{Inputs: in})
						if err != nil {
							t.Error(err)
							return
						}
						r.Release()
					}
				})
			}
			all.Wait()
			r, err := s.Infer(t.Context(), &edgewise.Request{Inputs: in}) // alone
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
			after, batches := child.Stats(), s.Statistics().Batches
			if copied := after.Copied() - before.Copied(); copied != 0 || after.Runs == before.Runs {
				t.Errorf("%d bytes were copied in %d runs", copied, after.Runs-before.Runs)
			}
			if !slices.ContainsFunc(batches, func(b edgewise.BatchStatistics) bool { return b.Size == 4 }) {
				t.Errorf("no batch was made: %+v", batches)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// repeated makes a batch of n times the same.
func repeated(in []edgewise.Tensor, n int64) []edgewise.Tensor {
	batch := slices.Clone(in)
	for i := range batch {
		batch[i].Shape = slices.Clone(in[i].Shape)
		batch[i].Shape[0], batch[i].Data = n, slices.Repeat(in[i].Data, int(n))
	}
	return batch
}
