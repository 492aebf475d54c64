package search

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/load"
)

// Bounds of the load that candidates are measured under.
const (
	maxCallers  = 128              // requests in progress while a candidate is saturated
	leastAnswer = 16               // answers for which a candidate is saturated, within saturation times the time
	saturation  = 3                // times
	leastSteps  = 3                // the start, the first request alone, and a batch, see steps
	drainTime   = 10 * time.Second // for the requests in progress at the end of a rung
	never       = 1e6              // milliseconds, of a request that was not answered
	warmAnswers = 2                // for each caller, before a candidate is measured
	mostWarm    = 500 * time.Millisecond
)

// Warm keeps as many requests of a source in progress as callers, until there are two answers for each caller, for at most 500 ms. The
// first runs with each number of rows are slow, since their memory is new. What becomes of the requests does not matter.
func Warm(ctx context.Context, s *load.Source, callers int) {
	limited, stop := context.WithTimeout(ctx, mostWarm)
	defer stop()
	answers := 0
	s.Saturate(limited, limited, callers, func(load.Answer) {
		if answers++; answers >= warmAnswers*callers {
			stop()
		}
	})
}

// Saturate keeps as many requests of a source in progress as callers, and counts the answers. It takes d; longer, up to three
// times d, until there are enough answers that did not come together, as those of one batch do.
func Saturate(ctx context.Context, s *load.Source, callers int, d time.Duration) (Estimate, error) {
	limited, cancel := context.WithTimeout(ctx, saturation*d)
	defer cancel()
	var (
		ends    []time.Duration
		stopped bool // while the answers of a batch came in
		failed  error
	)
	s.Saturate(limited, limited, callers, func(a load.Answer) {
		switch {
		case a.Err == nil:
			ends = append(ends, a.End())
		case !load.Refused(a.Err) && failed == nil:
			failed = a.Err
			cancel()
		}
		if a.End() >= d && len(ends) >= leastAnswer && !stopped && len(steps(ends)) > leastSteps {
			stopped = true
			cancel()
		}
	})
	switch {
	case ctx.Err() != nil:
		return Estimate{}, context.Cause(ctx)
	case failed != nil:
		return Estimate{}, &Excluded{Reason: failed.Error()}
	case len(ends) < 3:
		return Estimate{}, &Excluded{Reason: "it answered fewer than 3 requests in " + (saturation * d).String()}
	}
	counted := steps(ends)
	if stopped {
		counted = counted[:len(counted)-1] // the rest of that batch was not counted
	}
	return rateOf(counted), nil
}

// step is how many requests were answered until a time.
type step struct {
	at       time.Duration
	answered int
}

// steps returns the start, and the last answer of each batch. Answers that follow each other within a quarter of the mean time
// between answers count as those of one batch. ends has at least one time, and is sorted in place.
func steps(ends []time.Duration) []step {
	slices.Sort(ends)
	together := ends[len(ends)-1] / time.Duration(4*len(ends))
	list := []step{{}}
	for i, end := range ends {
		if i > 0 && end-ends[i-1] <= together {
			list = list[:len(list)-1]
		}
		list = append(list, step{end, i + 1})
	}
	return list
}

// rateOf is the rate of answers, without the first fifth of at least two steps, in which queues fill.
func rateOf(list []step) Estimate {
	list = list[len(list)/5:]
	parts := min(8, (len(list)-1)/2)
	rate := func(from, to step) float64 {
		return float64(to.answered-from.answered) / max((to.at-from.at).Seconds(), 1e-6)
	}
	e := Estimate{Value: rate(list[0], list[len(list)-1])}
	if parts < 2 {
		e.Low, e.High = e.Value*0.8, e.Value*1.2
		return e
	}
	var sum, square float64
	for i := range parts {
		one := math.Log(rate(list[i*(len(list)-1)/parts], list[(i+1)*(len(list)-1)/parts]))
		sum, square = sum+one, square+one*one
	}
	n := float64(parts)
	half := confident * math.Sqrt(max(square/n-sum/n*sum/n, 0)/(n-1))
	half = max(min(half, 0.5), 0.01)
	e.Low, e.High = e.Value*math.Exp(-half), e.Value*math.Exp(half)
	return e
}

// Offer sends requests of a source that arrive at random times, whatever becomes of those before them. Rounds of the same
// number have the same arrivals, in units of the mean time between them.
func Offer(ctx context.Context, s *load.Source, rate float64, d time.Duration, round int) (Point, error) {
	limited, cancel := context.WithTimeout(ctx, d+drainTime)
	defer cancel()
	var (
		took   []float64 // milliseconds
		failed error
	)
	s.Offer(limited, rate, d, uint64(round), func(a load.Answer) {
		switch {
		case a.Err == nil:
			took = append(took, float64(a.Took)/float64(time.Millisecond))
		case load.Refused(a.Err):
			took = append(took, never)
		case failed == nil:
			failed = a.Err
			cancel()
		}
	})
	switch {
	case ctx.Err() != nil:
		return Point{}, context.Cause(ctx)
	case failed != nil:
		return Point{}, &Excluded{Reason: failed.Error()}
	}
	if len(took) == 0 { // none was due
		took = append(took, never)
	}
	slices.Sort(took)
	return Point{Rate: rate, P50: quantile(took, 0.5), P99: quantile(took, 0.99), Requests: len(took)}, nil
}

// quantile is one of sorted values, with the ranks between which it is with 95 % confidence.
func quantile(sorted []float64, q float64) Estimate {
	n := float64(len(sorted))
	half := confident * math.Sqrt(n*q*(1-q))
	at := func(rank float64) float64 {
		i := min(max(int(math.Round(rank)), 0), len(sorted)-1)
		return sorted[i]
	}
	return Estimate{Value: at(n*q - 0.5), Low: at(n*q - 0.5 - half), High: at(n*q - 0.5 + half)}
}

// Callers is how many requests keep a candidate busy whose largest batch has so many rows.
func Callers(cores, batch int) int {
	return min(max(8*cores, 2*batch), maxCallers)
}
