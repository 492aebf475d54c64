package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/idle"
)

// session has use measure a candidate, again where that was interrupted. A candidate that is excluded is noted.
func (r *running) session(ctx context.Context, c Candidate, use func(Session) error) error {
	for {
		began := time.Now()
		if err := r.Bench.Quiet(ctx); err != nil {
			return err
		}
		r.found.Paused += time.Since(began)
		began = time.Now()
		err := r.once(ctx, c, use)
		var excluded *Excluded
		switch {
		case errors.Is(err, idle.ErrTraffic):
			r.found.Paused += time.Since(began) // what it took is lost
			continue
		case errors.As(err, &excluded) && ctx.Err() == nil:
			r.found.Excluded[c] = excluded
			return nil
		}
		return err
	}
}

func (r *running) once(ctx context.Context, c Candidate, use func(Session) error) error {
	s, err := r.Bench.Open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	return use(s)
}

// rung measures a candidate once more, for d at each rate.
func (r *running) rung(ctx context.Context, c Candidate, d time.Duration, phase string) error {
	if r.found.Excluded[c] != nil {
		return nil
	}
	m := r.found.Measured[c]
	fresh := m == nil
	if fresh {
		m = &Measured{}
	}
	var next Measured
	began, paused := time.Now(), r.found.Paused
	err := r.session(ctx, c, func(s Session) (err error) {
		next = *m
		got, err := s.Saturate(ctx, d)
		if err != nil {
			return err
		}
		next.Throughput = merged(next.Throughput, next.rungs, got)
		next.throughputs = append(slices.Clone(m.throughputs), math.Log(got.Value))
		if err := r.points(ctx, s, &next, d); err != nil {
			return err
		}
		next.Memory = s.Memory()
		next.rungs++
		return nil
	})
	if err != nil {
		return err
	}
	if r.found.Excluded[c] == nil {
		*m = next
		r.found.Measured[c] = m
		if d <= 2*r.unit {
			r.cost = time.Since(began) - (r.found.Paused - paused)
		}
	}
	if r.Tried != nil {
		r.Tried(c, phase)
	}
	return nil
}

// points offers requests at the rates that the objective asks about.
func (r *running) points(ctx context.Context, s Session, m *Measured, d time.Duration) error {
	var last Point
	add := func(rate float64) error {
		// 99 % of few requests are all of them: a low rate takes longer
		long := max(d, min(time.Duration(rungRequests/max(rate, 1e-3)*float64(time.Second)), longestRung))
		p, err := s.Offer(ctx, rate, long, m.rungs)
		if err == nil {
			m.Points, last = joined(m.Points, p), p
		}
		return err
	}
	o, rate := r.Objective, r.Objective.rate(r.current)
	if o.atRate() {
		if rate > 1.05*m.Throughput.High { // it would never answer them
			late := Estimate{never, never, never}
			m.Points = joined(m.Points, Point{Rate: rate, P50: late, P99: late})
			m.latencies = append(slices.Clone(m.latencies), math.Log(never))
		} else if err := add(rate); err != nil {
			return err
		} else {
			m.latencies = append(slices.Clone(m.latencies), math.Log(last.P50.Value))
			if last.Energy > 0 {
				m.energies = append(slices.Clone(m.energies), math.Log(last.Energy))
			}
		}
	}
	if o.P99 > 0 {
		for range probes {
			if err := add(probe(m, milliseconds(o.P99))); err != nil {
				return err
			}
		}
	}
	return nil
}

// merged is the mean of a number of estimates and one more.
func merged(old Estimate, n int, e Estimate) Estimate { return mean(old, e, 1/float64(n+1)) }

// mean is that of two estimates, of which the second one has a share; it is more certain than both.
func mean(a, b Estimate, share float64) Estimate {
	v := a.Value*(1-share) + b.Value*share
	down := math.Hypot((a.Value-a.Low)*(1-share), (b.Value-b.Low)*share)
	up := math.Hypot((a.High-a.Value)*(1-share), (b.High-b.Value)*share)
	return Estimate{v, v - down, v + up}
}

// sameRate is by how much rates may differ that count as one.
const sameRate = 0.02

// joined adds a point to those of other rates. One of the same rate takes its share of the requests.
func joined(list []Point, p Point) []Point {
	list = slices.Clone(list)
	for i, old := range list {
		if ratio := old.Rate / p.Rate; ratio < 1-sameRate || ratio > 1+sameRate || old.Requests == 0 {
			continue
		}
		share := float64(p.Requests) / float64(max(old.Requests+p.Requests, 1))
		list[i] = Point{
			old.Rate, mean(old.P50, p.P50, share), mean(old.P99, p.P99, share), old.Requests + p.Requests,
			old.Energy*(1-share) + p.Energy*share,
		}
		return list
	}
	list = append(list, p)
	slices.SortFunc(list, func(a, b Point) int { return cmp.Compare(a.Rate, b.Rate) })
	return list
}
