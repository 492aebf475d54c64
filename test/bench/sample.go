package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

// sample is what one side did in one stretch of time.
type sample struct {
	rate                     float64 // answers a second
	p10, p50, p90, p99, p999 float64 // seconds
	requests                 float64 // that the server was sent, those that are not counted above included
	refused                  float64 // the part of them that failed
	processor, own           float64 // seconds of the server a request; of the function that was called, the median
}

func newSample(latencies *perf.Histogram, took time.Duration) sample {
	return sample{
		rate: float64(latencies.Count()) / took.Seconds(),
		p10:  latencies.Quantile(0.1).Seconds(),
		p50:  latencies.Quantile(0.5).Seconds(), p90: latencies.Quantile(0.9).Seconds(),
		p99: latencies.Quantile(0.99).Seconds(), p999: latencies.Quantile(0.999).Seconds(),
	}
}

// together runs n callers for a while, each in a goroutine of its own, and returns what they did.
func together(n int, during time.Duration, call func(i int, latencies *perf.Histogram) error) (sample, error) {
	var work sync.WaitGroup
	latencies, errs := make([]perf.Histogram, n), make([]error, n)
	for i := range n {
		work.Go(func() { errs[i] = call(i, &latencies[i]) })
	}
	work.Wait()
	for i := 1; i < n; i++ {
		latencies[0].Merge(&latencies[i])
	}
	return newSample(&latencies[0], during), errors.Join(errs...)
}

// dialer makes what sends one request after the other.
type dialer func() (exchange func() error, hangUp func(), err error)

// closedLoop runs n clients for a while, each of which waits for its answer before it asks again. What begins within
// that time counts.
func closedLoop(dial dialer, n int, during time.Duration) (sample, error) {
	begin := time.Now().Add(min(warmTime, during/8))
	return together(n, during, func(_ int, latencies *perf.Histogram) error {
		exchange, hangUp, err := dial()
		if err != nil {
			return err
		}
		defer hangUp()
		for now := time.Now(); now.Before(begin.Add(during)); {
			if err := exchange(); err != nil {
				return err
			}
			then := now
			now = time.Now()
			if then.After(begin) {
				latencies.Record(now.Sub(then))
			}
		}
		return nil
	})
}

// series are the samples of one side, one for each round.
type series []sample

func (s series) rate() float64 { return s.median(func(x sample) float64 { return x.rate }) }
func (s series) p50() float64  { return s.median(func(x sample) float64 { return x.p50 }) }
func (s series) p90() float64  { return s.median(func(x sample) float64 { return x.p90 }) }
func (s series) p99() float64  { return s.median(func(x sample) float64 { return x.p99 }) }
func (s series) p999() float64 { return s.median(func(x sample) float64 { return x.p999 }) }

// failed is the part of the requests that failed, or nothing.
func (s series) failed() string {
	part := s.median(func(x sample) float64 { return x.refused })
	if part == 0 {
		return ""
	}
	return fmt.Sprintf("%.2g %%", 100*part)
}

// work is the processor time of the server a request in microseconds, or nothing where it is not known.
func (s series) work() string {
	us := 1e6 * s.median(func(x sample) float64 { return x.processor })
	if us == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", us)
}

// quick is the time within which the fastest tenth of the calls were answered.
func (s series) quick() float64 { return s.median(func(x sample) float64 { return x.p10 }) }

func (s series) median(of func(sample) float64) float64 {
	return s.beside(s, func(x, _ sample) float64 { return of(x) })
}

// beside returns the median of what two sides come to together, round by round.
func (s series) beside(o series, of func(s, o sample) float64) float64 {
	var values []float64
	for i := range s {
		values = append(values, of(s[i], o[i]))
	}
	return median(values)
}

// over returns the ratio of two sides' rates.
func (s series) over(o series) float64 {
	return s.beside(o, func(s, o sample) float64 { return s.rate / o.rate })
}

// quicker returns how many times the time of s goes into that of o, both by the fastest tenth of their calls. For one
// client at a time: what other processes of the machine interrupt does not count.
func (s series) quicker(o series) float64 {
	return s.beside(o, func(s, o sample) float64 { return o.p10 / s.p10 })
}

// added returns the difference of two sides' median latencies in seconds.
func (s series) added(o series) float64 {
	return s.beside(o, func(s, o sample) float64 { return s.p50 - o.p50 })
}

// median returns the middle of the values, which are at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
