package sched

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// free is an instance that costs nothing: it returns its input as its output.
type free struct{}

func (free) Run(_ context.Context, in []edgewise.Tensor, _ []string, _ edgewise.RunOptions) (*edgewise.Result, error) {
	out := make([]edgewise.Tensor, 1)
	out[0] = edgewise.Tensor{Name: "y", Type: in[0].Type, Shape: in[0].Shape, Data: in[0].Data}
	return &edgewise.Result{Outputs: out, Free: func() {}}, nil
}

func (free) Close() error { return nil }

// BenchmarkInfer measures what a request costs beside its model.
func BenchmarkInfer(b *testing.B) {
	for _, batches := range []bool{false, true} {
		for _, callers := range []int{1, 16, 64} {
			for name, budget := range map[string]*cores.Budget{"none": nil, "shared": cores.New(2)} {
				b.Run(fmt.Sprintf("batching=%v/callers=%d/cores=%s", batches, callers, name), func(b *testing.B) {
					measure(
						b, batches, callers,
						Config{
							Instances: 2, Cores: budget, Threads: 1, MaxQueue: 1000,
							Logger: slog.New(slog.DiscardHandler),
						},
					)
				})
			}
		}
	}
}

func measure(b *testing.B, batches bool, callers int, c Config) {
	m := model()
	if batches {
		m.MaxBatchSize, m.DynamicBatching = 64, &edgewise.DynamicBatching{}
	}
	s := New(&edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: m}, free{}, c)
	b.ReportAllocs()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() { repeat(b, s, (b.N+callers-1-c)/callers) })
	}
	all.Wait()
	if st := s.Statistics(); st.ExecutionCount > 0 {
		b.ReportMetric(float64(st.InferenceCount)/float64(st.ExecutionCount), "batch")
	}
	_ = s.Close()
}

func repeat(b *testing.B, s *Scheduler, n int) {
	req := request(1, 2)
	for range n {
		r, err := s.Infer(context.Background(), req)
		if err != nil {
			b.Error(err)
			return
		}
		r.Release()
	}
}
