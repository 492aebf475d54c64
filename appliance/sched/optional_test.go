package sched

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// adder answers the sum of the inputs that are there, row by row, and notes what it was given.
type adder struct {
	mu   sync.Mutex
	runs []string
}

func (a *adder) Run(_ context.Context, in []edgewise.Tensor, _ []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	time.Sleep(10 * time.Millisecond)
	note, rows := "", int64(1)
	for i := range in {
		note, rows = note+in[i].Name, in[i].Shape[0]
	}
	a.mu.Lock()
	a.runs = append(a.runs, fmt.Sprint(note, rows))
	a.mu.Unlock()
	out := make([]byte, 8*rows)
	for i := range in {
		for k := range out {
			out[k] += in[i].Data[k]
		}
	}
	y := edgewise.Tensor{Name: "y", Type: edgewise.Uint8, Shape: edgewise.Shape{rows, 8}, Data: out}
	return &edgewise.Result{Outputs: []edgewise.Tensor{y}, Free: func() {}}, nil
}

func (a *adder) Close() error { return nil }

func TestRequestsRunTogetherOnlyWithTheSameOptionalInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &edgewise.Model{
			Name: "add", MaxBatchSize: 4, DynamicBatching: &edgewise.DynamicBatching{},
			Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.Uint8, Dims: edgewise.Shape{8}}},
		}
		for _, name := range []string{"a", "b", "c"} {
			m.Input = append(
				m.Input,
				edgewise.ModelInput{Name: name, DataType: edgewise.Uint8, Dims: edgewise.Shape{8}, Optional: true},
			)
		}
		a := &adder{}
		s := schedulerOf(a, m, Config{Instances: 1, MaxQueue: 100})
		values := map[byte]byte{'a': 1, 'b': 2, 'c': 4}
		var all sync.WaitGroup
		for _, set := range []string{"abc", "a", "a", "ba", "ab", "", "", "b", "c", "bc", "cb"} {
			all.Go(func() {
				req, want := &edgewise.Request{}, byte(0)
				for i := range set {
					data := make([]byte, 8)
					for k := range data {
						data[k] = values[set[i]]
					}
					want += values[set[i]]
					req.Inputs = append(
						req.Inputs,
						edgewise.Tensor{
							Name: set[i : i+1], Type: edgewise.Uint8, Shape: edgewise.Shape{1, 8}, Data: data,
						},
					)
				}
				r, err := s.Infer(t.Context(), req)
				if err != nil || r.Outputs[0].Data[7] != want || len(r.Outputs[0].Data) != 8 {
					t.Errorf("%q: got %v, want %d, %v", set, r, want, err)
				}
				r.Release()
			})
			synctest.Wait()
		}
		all.Wait()
		_ = s.Close()
		if got, want := fmt.Sprint(a.runs), "[abc1 a2 ab2 1 1 b1 c1 bc2]"; got != want {
			t.Errorf("runs %s, want %s", got, want)
		}
	})
}
