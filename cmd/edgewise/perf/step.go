package perf

import (
	"math"
	"time"
)

// Step is what was measured of one load: the sum of the last three windows, fewer when it was interrupted. Requests
// count in the window in which their answer was complete.
type Step struct {
	Concurrency int     `json:"concurrency,omitempty"` // of a closed loop
	Rate        float64 `json:"rate,omitempty"`        // of an open loop: arrivals a second
	Seconds     float64 `json:"seconds"`               // of the reported windows
	Requests    uint64  `json:"requests"`              // answered with status 200
	Failed      uint64  `json:"failed"`                // all others that ended
	Throughput  float64 `json:"throughput"`            // requests a second, answered with status 200
	Inferences  float64 `json:"inferences"`            // Throughput times the batch of a request
	Latency     Latency `json:"latency"`
	// Slowest is the longest latency in microseconds of all windows, those that are not reported included.
	Slowest     float64   `json:"slowest_us"`
	Windows     int       `json:"windows"`     // measured, of which at most three are reported
	Stable      bool      `json:"stable"`      // the reported windows agree
	Interrupted bool      `json:"interrupted"` // ended before it was stable or out of windows
	Failures    []Failure `json:"failures"`    // most frequent first
	Reconnects  uint64    `json:"reconnects"`  // connections that the server had closed while they were in use
	Server      *Server   `json:"server"`      // null: the server does not tell
	Generator   Generator `json:"generator"`
	// Behind is how many seconds late an open loop's schedule was at the end: the server, or the generator, does not
	// keep up.
	Behind float64 `json:"behind_s"`
	// Latencies are all those that Latency sums up, to be merged with those of other steps.
	Latencies *Histogram `json:"-"`
}

// Load returns the load that was measured.
func (s *Step) Load() Load { return Load{Concurrency: s.Concurrency, Rate: s.Rate} }

// Latency is in microseconds: from sending, or in an open loop from the scheduled arrival, to the last byte of the
// answer. Only requests answered with status 200 are in it.
type Latency struct {
	Mean float64 `json:"mean_us"`
	Min  float64 `json:"min_us"`
	P50  float64 `json:"p50_us"`
	P90  float64 `json:"p90_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p99.9_us"`
	Max  float64 `json:"max_us"`
}

// Generator is what the generation of the load cost.
type Generator struct {
	CPUSeconds    float64 `json:"cpu_s"`              // of this process, in user and kernel
	CPUPerRequest float64 `json:"cpu_per_request_us"` // microseconds
	DelayP99      float64 `json:"delay_p99_us"`       // from the scheduled arrival to the sending, in an open loop
}

func newStep(load Load, o *Options, windows []window) Step {
	var sum tally
	var length, processor time.Duration
	for _, w := range windows {
		sum.merge(w.tally)
		length += w.length
		processor += w.processor
	}
	s := Step{
		Concurrency: load.Concurrency, Rate: load.Rate,
		Seconds:  rounded(length.Seconds()),
		Requests: sum.latency.Count(), Failed: sum.failed(),
		Latency: latencyOf(&sum.latency), Latencies: &sum.latency, Failures: sum.sortedFailures(), Reconnects: sum.reconnects,
		Server:    serverOf(windows),
		Generator: Generator{CPUSeconds: rounded(processor.Seconds()), DelayP99: micro(sum.delay.Quantile(0.99))},
	}
	s.Throughput = rounded(float64(s.Requests) / length.Seconds())
	s.Inferences = rounded(s.Throughput * float64(max(o.Batch, 1)))
	if n := s.Requests + s.Failed; n > 0 {
		s.Generator.CPUPerRequest = rounded(float64(processor.Microseconds()) / float64(n))
	}
	return s
}

func latencyOf(h *Histogram) Latency {
	return Latency{
		Mean: micro(h.Mean()), Min: micro(h.Min()), Max: micro(h.Max()),
		P50: micro(h.Quantile(0.5)), P90: micro(h.Quantile(0.9)), P99: micro(h.Quantile(0.99)), P999: micro(h.Quantile(0.999)),
	}
}

// micro returns microseconds.
func micro(d time.Duration) float64 { return rounded(float64(d) / 1e3) }

// rounded keeps three decimals: more are noise.
func rounded(v float64) float64 { return math.Round(v*1e3) / 1e3 }
