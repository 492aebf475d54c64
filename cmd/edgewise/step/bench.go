package step

import (
	"context"
	"slices"
	"time"
)

// Bounds of a measurement.
const (
	MinBenchTime = 10 * time.Millisecond
	MaxBenchTime = 5 * time.Minute
	benchWarmup  = 3   // runs that are not counted
	maxBenchRuns = 1e6 // kept in memory to sort
)

// Measured is what the repeated runs of a case cost.
type Measured struct {
	Case string        `json:"case"`
	Runs int           `json:"runs"`
	P50  time.Duration `json:"p50_ns"` // of a whole request: inputs in, step, outputs checked
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	Used Used          `json:"used"` // the median of each
}

// Bench runs a case again and again for about d, one request at a time. A case that fails is an error.
func (l *Loaded) Bench(ctx context.Context, c *Case, d time.Duration) (Measured, error) {
	req, err := c.request(l.Model)
	if err != nil {
		return Measured{}, err
	}
	want, err := c.wanted(l, req)
	if err != nil {
		return Measured{}, err
	}
	l.models.set(c.Models)
	var whole []time.Duration
	var used []Used
	for start := time.Now(); len(whole) < benchWarmup+1 || time.Since(start) < d && len(whole) < maxBenchRuns; {
		began := time.Now()
		result, err := l.run(ctx, req, want)
		if err != nil {
			return Measured{}, c.about(err)
		}
		used = append(used, usedBy(result))
		result.Free()
		whole = append(whole, time.Since(began))
		l.lines.take()
	}
	whole, used = whole[benchWarmup:], used[benchWarmup:]
	slices.Sort(whole)
	at := func(percent int) time.Duration { return whole[(len(whole)-1)*percent/100] }
	return Measured{Case: c.Name, Runs: len(whole), P50: at(50), P90: at(90), P99: at(99), Used: medianUsed(used)}, nil
}

func medianUsed(used []Used) Used {
	return Used{
		Fuel:   median(used, func(u Used) uint64 { return u.Fuel }),
		Memory: median(used, func(u Used) int64 { return u.Memory }),
		Guest:  median(used, func(u Used) time.Duration { return u.Guest }),
		Host:   median(used, func(u Used) time.Duration { return u.Host }),
		Copy:   median(used, func(u Used) time.Duration { return u.Copy }),
		Check:  median(used, func(u Used) time.Duration { return u.Check }),
	}
}

func median[T uint64 | int64 | time.Duration](used []Used, of func(Used) T) T {
	values := make([]T, len(used))
	for i, u := range used {
		values[i] = of(u)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
