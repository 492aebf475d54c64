package main

import (
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

// sample is what one side did in one stretch of time.
type sample struct {
	rate          float64 // answers a second
	p10, p50, p99 float64 // seconds
}

func newSample(latencies *perf.Histogram, took time.Duration) sample {
	return sample{
		rate: float64(latencies.Count()) / took.Seconds(),
		p10:  latencies.Quantile(0.1).Seconds(),
		p50:  latencies.Quantile(0.5).Seconds(), p99: latencies.Quantile(0.99).Seconds(),
	}
}

// series are the samples of one side, one for each round.
type series []sample

func (s series) rate() float64 { return median(s.each(func(x sample) float64 { return x.rate })) }
func (s series) p50() float64  { return median(s.each(func(x sample) float64 { return x.p50 })) }
func (s series) p99() float64  { return median(s.each(func(x sample) float64 { return x.p99 })) }

func (s series) each(of func(sample) float64) []float64 {
	var values []float64
	for _, x := range s {
		values = append(values, of(x))
	}
	return values
}

// over returns the median of the ratios of two sides' rates, round by round.
func (s series) over(o series) float64 {
	var values []float64
	for i := range s {
		values = append(values, s[i].rate/o[i].rate)
	}
	return median(values)
}

// quicker returns how many times the time of s goes into that of o, both by the fastest tenth of their calls: the
// median of the rounds. For one client at a time: what other processes of the machine interrupt does not count.
func (s series) quicker(o series) float64 {
	var values []float64
	for i := range s {
		values = append(values, o[i].p10/s[i].p10)
	}
	return median(values)
}

// quick is the time within which the fastest tenth of the calls were answered.
func (s series) quick() float64 { return median(s.each(func(x sample) float64 { return x.p10 })) }

// added returns the median of the differences of two sides' median latencies in seconds, round by round.
func (s series) added(o series) float64 {
	var values []float64
	for i := range s {
		values = append(values, s[i].p50-o[i].p50)
	}
	return median(values)
}

// median returns the middle of the values, which are at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
