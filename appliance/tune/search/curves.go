package search

import (
	"context"
	"time"
)

// curveParts are the rates of a curve, as parts of the throughput.
var curveParts = []float64{0.2, 0.4, 0.6, 0.75, 0.85, 0.95}

// Curves measures the latency of the current configuration, and of the best one, at several rates within a time. What is
// not measured until then is left out, as after an interruption or an error.
func (f *Found) Curves(ctx context.Context, b Bench, limit time.Duration) {
	base := Candidate(make([]byte, len(f.Best)))
	list := []Candidate{base}
	if f.Best != base {
		list = append(list, f.Best)
	}
	each := min(limit/time.Duration(len(list)*len(curveParts)), longestRung)
	for _, c := range list {
		m := f.Measured[c]
		if b.Quiet(ctx) != nil {
			continue
		}
		s, err := b.Open(ctx, c)
		if err != nil {
			continue
		}
		for i, part := range curveParts {
			p, err := s.Offer(ctx, part*min(m.Throughput.Value, MaxRate), each, i)
			if err != nil {
				break
			}
			m.Points = joined(m.Points, p)
		}
		s.Close()
	}
}
