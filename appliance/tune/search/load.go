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
	drainTime   = 10 * time.Second // for the requests in progress at the end of a rung
	never       = 1e6              // milliseconds, of a request that was not answered
)

// Saturate keeps as many requests of a source in progress as callers, and counts the answers of windows.
func Saturate(ctx context.Context, s *load.Source, callers int, d time.Duration) (Estimate, error) {
	limited, cancel := context.WithTimeout(ctx, saturation*d)
	defer cancel()
	var (
		ends   []time.Duration
		failed error
	)
	s.Saturate(limited, limited, callers, func(a load.Answer) {
		switch {
		case a.Err == nil:
			ends = append(ends, a.End())
		case !load.Refused(a.Err) && failed == nil:
			failed = a.Err
			cancel()
		}
		if a.End() >= d && len(ends) >= leastAnswer {
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
	return rateOf(ends), nil
}

// rateOf is the rate of events behind the first fifth, in which queues fill.
func rateOf(ends []time.Duration) Estimate {
	slices.Sort(ends)
	ends = ends[len(ends)/5:]
	parts := min(8, (len(ends)-1)/2)
	rate := func(list []time.Duration) float64 { // between the first and the last
		return float64(len(list)-1) / max((list[len(list)-1]-list[0]).Seconds(), 1e-6)
	}
	e := Estimate{Value: rate(ends)}
	if parts < 2 {
		e.Low, e.High = e.Value*0.8, e.Value*1.2
		return e
	}
	var sum, square float64
	for i := range parts {
		one := math.Log(rate(ends[i*(len(ends)-1)/parts : (i+1)*(len(ends)-1)/parts+1]))
		sum, square = sum+one, square+one*one
	}
	n := float64(parts)
	half := 1.96 * math.Sqrt(max(square/n-sum/n*sum/n, 0)/(n-1))
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
	half := 1.96 * math.Sqrt(n*q*(1-q))
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
