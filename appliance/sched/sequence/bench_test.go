package sequence

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// freeState is an instance that costs nothing: its output and its state are its input.
type freeState struct{}

func (freeState) Run(_ context.Context, in []edgewise.Tensor, want []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	out := make([]edgewise.Tensor, len(want))
	for i, name := range want {
		out[i] = edgewise.Tensor{Name: name, Type: in[0].Type, Shape: in[0].Shape, Data: in[0].Data}
	}
	return &edgewise.Result{Outputs: out, Free: func() {}}, nil
}

func (freeState) Close() error { return nil }

// BenchmarkSequence measures what a request of a sequence costs beside its model.
func BenchmarkSequence(b *testing.B) {
	for name, edit := range map[string]func(*edgewise.SequenceBatching){"direct": direct(0, 0), "oldest": oldest(64)} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				m := hashModel(16, edit)
				m.Output = m.Output[:1]
				c := sched.Config{
					Instances: 2, Cores: cores.New(2), Threads: 1, MaxQueue: 1000,
					Logger: slog.New(slog.DiscardHandler),
				}
				s := New(
					&edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: m}, freeState{}, c,
					Config{Initial: ones()},
				)
				b.ReportAllocs()
				var all sync.WaitGroup
				for n := range callers {
					all.Go(func() {
						req := step(true, edgewise.Sequence{ID: uint64(n) + 1, Start: true}, 1)
						for range (b.N + callers - 1 - n) / callers {
							r, err := s.Infer(context.Background(), req)
							if err != nil {
								b.Error(err)
								return
							}
							req.Sequence.Start = false
							r.Release()
						}
					})
				}
				all.Wait()
				_ = s.Close()
			})
		}
	}
}
