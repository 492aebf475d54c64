package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/edgewise-ai/edgewise"
)

// LatencyConfig says what is measured of each answered request, beside what the parts count themselves.
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
	request, queue *histogram
	summaries      []prometheus.Summary // by the constants below; nil: none
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

// Observe notes that a version answered a request after a total time, of which timing are the parts.
func (l *Latencies) Observe(id edgewise.ModelID, total time.Duration, t edgewise.Timing) {
	kept, ok := l.versions.Load(id)
	if !ok {
		kept, _ = l.versions.LoadOrStore(id, l.fresh())
	}
	v := kept.(*latency)
	v.request.observe(total)
	v.queue.observe(t.Queue)
	if v.summaries != nil {
		v.summarise(total, t)
	}
}

func (l *Latencies) fresh() *latency {
	v := &latency{request: newHistogram(), queue: newHistogram()}
	for i := range summaryCount {
		if l.config.Summaries {
			v.summaries = append(v.summaries,
				prometheus.NewSummary(prometheus.SummaryOpts{Name: summaryNames[i], Objectives: l.config.Quantiles}))
		}
	}
	return v
}

// summarise takes the parts of a request that ran; one that was answered out of the cache has none.
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

// collect sends what was measured of a version, and forgets versions that are no longer there.
func (l *Latencies) collect(out chan<- prometheus.Metric, s Sample, names, values []string) {
	kept, ok := l.versions.Load(s.Version.ID)
	if !ok {
		kept = l.fresh() // all zero, so that the series are there from the start
	}
	v := kept.(*latency)
	v.request.send(out, "edgewise_request_seconds", "Time of successful requests.", names, values)
	v.queue.send(out, "edgewise_queue_seconds", "Time of successful requests in the queue.", names, values)
	if l.config.FirstResponse {
		v.request.sendIn(out, "nv_inference_first_response_histogram_ms", "Time to the first response, in milliseconds.",
			firstResponseBuckets(s.Version.Model), names, values)
	}
	cached := s.Version.Model.ResponseCache != nil && s.Version.Model.ResponseCache.Enable
	for i, summary := range v.summaries {
		if ofCache := i == summaryHit || i == summaryMiss; ofCache && !cached || i == summaryRequest && cached {
			continue
		}
		sendSummary(out, summary, summaryNames[i], names, values)
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

func sendSummary(out chan<- prometheus.Metric, s prometheus.Summary, name string, names, values []string) {
	var m dto.Metric
	if err := s.Write(&m); err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc(name, "", nil, nil), err)
		return
	}
	quantiles := map[float64]float64{}
	for _, q := range m.GetSummary().GetQuantile() {
		quantiles[q.GetQuantile()] = q.GetValue()
	}
	metric, err := prometheus.NewConstSummary(prometheus.NewDesc(name, "Times in microseconds.", names, nil),
		m.GetSummary().GetSampleCount(), m.GetSummary().GetSampleSum(), quantiles, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(prometheus.NewDesc(name, "", nil, nil), err)
	}
	out <- metric
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

// shownBounds are those on the page, in seconds.
var shownBounds = []time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond,
	2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

func (h *histogram) send(out chan<- prometheus.Metric, name, help string, names, values []string) {
	bounds := make(map[float64]time.Duration, len(shownBounds))
	for _, b := range shownBounds {
		bounds[b.Seconds()] = b
	}
	h.sendWith(out, name, help, bounds, time.Second, names, values)
}

// sendIn sends the histogram with buckets in milliseconds.
func (h *histogram) sendIn(out chan<- prometheus.Metric, name, help string, buckets []float64, names, values []string) {
	bounds := make(map[float64]time.Duration, len(buckets))
	for _, b := range buckets {
		bounds[b] = time.Duration(b * float64(time.Millisecond))
	}
	h.sendWith(out, name, help, bounds, time.Millisecond, names, values)
}

// sendWith sends the counts up to each bound, by what it is called. A bound between two of the histogram's own counts
// up to the lower one.
func (h *histogram) sendWith(out chan<- prometheus.Metric, name, help string, bounds map[float64]time.Duration,
	unit time.Duration, names, values []string,
) {
	cumulative := make([]uint64, len(h.counts))
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		cumulative[i] = total
	}
	buckets := make(map[float64]uint64, len(bounds))
	for called, bound := range bounds {
		i, exact := slices.BinarySearch(h.bounds, bound)
		switch {
		case exact:
			buckets[called] = cumulative[i]
		case i > 0:
			buckets[called] = cumulative[i-1]
		default:
			buckets[called] = 0
		}
	}
	metric, err := prometheus.NewConstHistogram(prometheus.NewDesc(name, help, names, nil), total,
		float64(h.sum.Load())/float64(unit), buckets, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
	}
	out <- metric
}
