package ensemble

import (
	"context"
	"fmt"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// instant answers every request with its first input, so that what is measured is the ensemble.
type instant struct{}

func (instant) Infer(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	out := req.Inputs[0]
	out.Name = "y"
	return &edgewise.Response{Model: req.Model, Outputs: []edgewise.Tensor{out}, Free: func() {}}, nil
}

// BenchmarkChain is a chain of steps that do nothing: the cost of the ensemble itself, in one goroutine.
func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1, 3, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var steps []edgewise.EnsembleStep
			from := "x"
			for i := range n {
				to := fmt.Sprint("t", i)
				if i == n-1 {
					to = "y"
				}
				steps = append(steps, stepOf("m", names{"x": from}, names{"y": to}))
				from = to
			}
			measure(b, pipeline(0, one, y, steps...))
		})
	}
}

// BenchmarkWide is steps that run at the same time, each on a goroutine.
func BenchmarkWide(b *testing.B) {
	var steps []edgewise.EnsembleStep
	var outputs []string
	for i := range 4 {
		name := fmt.Sprint("y", i)
		steps = append(steps, stepOf("m", names{"x": "x"}, names{"y": name}))
		outputs = append(outputs, name+":FP32[-1]")
	}
	measure(b, pipeline(0, one, outputs, steps...))
}

func measure(b *testing.B, m *edgewise.Model) {
	z := newZoo(b)
	z.add("m", 0, one, y, nil)
	e := z.ensemble(m)
	e.config.Infer = instant{}
	req := request(make([]float32, 1000)...)
	b.ReportAllocs()
	for b.Loop() {
		r, err := e.Infer(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}
