package observe

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/edgewise-ai/edgewise"
)

// LatencyConfig says which latencies of successful requests are measured for the metrics.
type LatencyConfig struct {
	FirstResponse bool                // Triton's histogram of milliseconds
	Summaries     bool                // Triton's summaries of microseconds
	Quantiles     map[float64]float64 // of the summaries, with the error that is allowed
}

// Latencies measures how long requests take. It is safe for concurrent use.
type Latencies struct {
	config   LatencyConfig
	versions sync.Map // edgewise.ModelID to *latency
}

// NewLatencies makes a Latencies that has measured nothing.
func NewLatencies(c LatencyConfig) *Latencies { return &Latencies{config: c} }

// latency is what was measured of one version.
type latency struct {
	request, queue, first *histogram
	summaries             []prometheus.Summary // by the constants below; nil: none
}

// The summaries of a version.
const (
	summaryRequest = iota
	summaryQueue
	summaryInput
	summaryInfer
	summaryOutput
	summaryHit
	summaryMiss
	summaryCount
)

// summaryNames are Triton's.
var summaryNames = [summaryCount]string{
	"nv_inference_request_summary_us", "nv_inference_queue_summary_us", "nv_inference_compute_input_summary_us",
	"nv_inference_compute_infer_summary_us", "nv_inference_compute_output_summary_us", "nv_cache_hit_summary_per_model",
	"nv_cache_miss_summary_per_model",
}

// Observe records the latency of a request that a version answered; timing are its parts.
func (l *Latencies) Observe(id edgewise.ModelID, total time.Duration, t edgewise.Timing) {
	kept, ok := l.versions.Load(id)
	if !ok {
		kept, _ = l.versions.LoadOrStore(id, l.fresh())
	}
	v := kept.(*latency)
	v.request.observe(total)
	v.queue.observe(t.Queue)
	if t.First > 0 {
		v.first.observe(t.First)
	}
	if v.summaries != nil {
		v.summarise(total, t)
	}
}

func (l *Latencies) fresh() *latency {
	v := &latency{request: newHistogram(), queue: newHistogram(), first: newHistogram()}
	for i := range summaryCount {
		if l.config.Summaries {
			v.summaries = append(v.summaries,
				prometheus.NewSummary(prometheus.SummaryOpts{Name: summaryNames[i], Objectives: l.config.Quantiles}))
		}
	}
	return v
}

// summarise records the parts of a request. A response from the cache has none.
func (v *latency) summarise(total time.Duration, t edgewise.Timing) {
	micros := func(which int, d time.Duration) { v.summaries[which].Observe(float64(d) / float64(time.Microsecond)) }
	micros(summaryRequest, total)
	if t.Batch == 0 && t.Infer == 0 {
		micros(summaryHit, total)
		return
	}
	micros(summaryQueue, t.Queue)
	micros(summaryInput, t.Input)
	micros(summaryInfer, t.Infer)
	micros(summaryOutput, t.Output)
	micros(summaryMiss, max(total-t.Queue-t.Input-t.Infer-t.Output, 0))
}

// collect sends the latencies of a version.
func (l *Latencies) collect(to sink, s Sample) {
	kept, ok := l.versions.Load(s.Version.ID)
	if !ok {
		kept = l.fresh() // all zero, so that the series are there from the start
	}
	v := kept.(*latency)
	to.histogram("edgewise_request_seconds", "Latency of successful requests.", v.request, shownBuckets, time.Second)
	to.histogram("edgewise_queue_seconds", "Queue time of successful requests.", v.queue, shownBuckets, time.Second)
	if l.config.FirstResponse {
		first := v.request
		if s.Version.Model.Decoupled() {
			first = v.first
		}
		to.histogram(firstResponseFamily, "Time to the first response, in milliseconds.", first,
			firstResponseBuckets(s.Version.Model), time.Millisecond)
	}
	cached := s.Version.Model.ResponseCache != nil && s.Version.Model.ResponseCache.Enable
	for i, summary := range v.summaries {
		if ofCache := i == summaryHit || i == summaryMiss; ofCache && !cached || i == summaryRequest && cached {
			continue
		}
		to.summary(summaryNames[i], summary)
	}
}

// keep forgets every version that is not among those in samples.
func (l *Latencies) keep(samples []Sample) {
	l.versions.Range(func(id, _ any) bool {
		if !slices.ContainsFunc(samples, func(s Sample) bool { return s.Version.ID == id }) {
			l.versions.Delete(id)
		}
		return true
	})
}

func (s sink) summary(name string, of prometheus.Summary) {
	const help = "Times in microseconds."
	var m dto.Metric
	if err := of.Write(&m); err != nil {
		s.send(nil, err, name, help)
		return
	}
	quantiles := map[float64]float64{}
	for _, q := range m.GetSummary().GetQuantile() {
		quantiles[q.GetQuantile()] = q.GetValue()
	}
	metric, err := prometheus.NewConstSummary(s.describe(name, help), m.GetSummary().GetSampleCount(),
		m.GetSummary().GetSampleSum(), quantiles, s.values...)
	s.send(metric, err, name, help)
}

// firstResponseFamily is the one histogram whose buckets a model's configuration may choose.
const firstResponseFamily = "nv_inference_first_response_histogram_ms"

// firstResponseBuckets are in milliseconds: Triton's, unless the model says which.
func firstResponseBuckets(m *edgewise.Model) []float64 {
	if m.ModelMetrics != nil {
		for _, c := range m.ModelMetrics.MetricControl {
			if c.MetricIdentifier != nil && c.MetricIdentifier.Family == firstResponseFamily && c.HistogramOptions != nil &&
				len(c.HistogramOptions.Buckets) > 0 {
				return c.HistogramOptions.Buckets
			}
		}
	}
	return []float64{100, 500, 2000, 5000}
}

// histogramBounds are the upper bounds of a histogram's buckets, from 10 microseconds to 100 seconds: fine enough that
// a bucket of Triton's can be made of them.
func histogramBounds() []time.Duration {
	var bounds []time.Duration
	for decade := 10 * time.Microsecond; decade <= 10*time.Second; decade *= 10 {
		for _, step := range []int64{10, 15, 20, 25, 35, 50, 75} {
			bounds = append(bounds, decade*time.Duration(step)/10)
		}
	}
	return append(bounds, 100*time.Second)
}

// histogram counts durations. It is safe for concurrent use.
//
// Its bounds are the exact buckets of Prometheus. The histograms of package activity and of the load generator are
// other types: they compute percentiles, for which their buckets are as narrow as the error that each of them allows,
// and the load generator's is not shared between goroutines.
type histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64    // nanoseconds
}

func newHistogram() *histogram {
	bounds := histogramBounds()
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *histogram) observe(d time.Duration) {
	i, _ := slices.BinarySearch(h.bounds, d)
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// shownBuckets are those on the page, in seconds.
var shownBuckets = []float64{
	50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10,
}

// histogram sends the counts up to each bucket, which is in unit. A bucket between two bounds of the histogram counts
// up to the lower one.
func (s sink) histogram(name, help string, h *histogram, buckets []float64, unit time.Duration) {
	cumulative := make([]uint64, len(h.counts))
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		cumulative[i] = total
	}
	counts := make(map[float64]uint64, len(buckets))
	for _, bucket := range buckets {
		i, exact := slices.BinarySearch(h.bounds, time.Duration(math.Round(bucket*float64(unit))))
		switch {
		case exact:
			counts[bucket] = cumulative[i]
		case i > 0:
			counts[bucket] = cumulative[i-1]
		default:
			counts[bucket] = 0
		}
	}
	metric, err := prometheus.NewConstHistogram(s.describe(name, help), total,
		float64(h.sum.Load())/float64(unit), counts, s.values...)
	s.send(metric, err, name, help)
}
