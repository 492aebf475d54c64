package search

import (
	"context"
	"time"
)

// curveParts are the rates of a curve, as parts of the throughput.
var curveParts = []float64{0.2, 0.4, 0.6, 0.75, 0.85, 0.95}

// Curves measures the latency of the current configuration, and of the best one, at several rates. Both have half of the limit,
// without the time in which clients need the machine. Rates that no time is left for are left out, but not the lowest one: a
// candidate may take its time to load. After an interruption or an error all others are left out.
func (f *Found) Curves(ctx context.Context, b Bench, limit time.Duration) {
	base := Candidate(make([]byte, len(f.Best)))
	list := []Candidate{base}
	if f.Best != base {
		list = append(list, f.Best)
	}
	share := limit / time.Duration(len(list))
	for _, c := range list {
		f.curve(ctx, b, c, share)
	}
}

// curve measures one candidate. The requests of the lowest and of the last rate may end after the limit.
func (f *Found) curve(ctx context.Context, b Bench, c Candidate, limit time.Duration) {
	if b.Quiet(ctx) != nil {
		return
	}
	began, each := time.Now(), min(limit/time.Duration(len(curveParts)+1), longestRung) // one part is left for the loading
	s, err := b.Open(ctx, c)
	if err != nil {
		return
	}
	defer s.Close()
	m := f.Measured[c]
	for i, part := range curveParts {
		if i > 0 && time.Since(began)+each > limit {
			return
		}
		p, err := s.Offer(ctx, part*min(m.Throughput.Value, MaxRate), each, i)
		if err != nil {
			return
		}
		m.Points = joined(m.Points, p)
	}
}
