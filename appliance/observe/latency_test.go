package observe

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/edgewise-ai/edgewise"
)

func pageOf(t *testing.T, s Source) string {
	t.Helper()
	page, _, err := New(s).Page()
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestLatenciesOnThePage(t *testing.T) {
	quantiles := map[float64]float64{0.5: 0.05, 0.99: 0.001}
	for _, test := range []struct {
		name         string
		config       LatencyConfig
		cache        bool
		there, never []string
	}{
		{"as it comes", LatencyConfig{}, false, []string{
			`edgewise_request_seconds_bucket{model="cat",version="2",le="5e-05"}`,
			`edgewise_request_seconds_count{model="cat",version="2"} 3`,
			`edgewise_queue_seconds_bucket{model="cat",version="2",le="0.0001"} 3`,
			`edgewise_queue_seconds_sum{model="cat",version="2"} 0.00021`,
		}, []string{"_summary_", "first_response"}},
		{"first response", LatencyConfig{FirstResponse: true}, false, []string{
			`# TYPE nv_inference_first_response_histogram_ms histogram`,
			`nv_inference_first_response_histogram_ms_bucket{model="cat",version="2",le="100"} 3`,
			`nv_inference_first_response_histogram_ms_bucket{model="cat",version="2",le="5000"} 3`,
			`nv_inference_first_response_histogram_ms_bucket{model="cat",version="2",le="+Inf"} 3`,
		}, []string{"_summary_"}},
		{"summaries", LatencyConfig{Summaries: true, Quantiles: quantiles}, false, []string{
			`# TYPE nv_inference_request_summary_us summary`, `nv_inference_request_summary_us_count{model="cat",version="2"} 3`,
			`nv_inference_queue_summary_us{model="cat",version="2",quantile="0.5"} 70`,
			`nv_inference_compute_input_summary_us{model="cat",version="2",quantile="0.99"} 1`,
			`nv_inference_compute_infer_summary_us_sum{model="cat",version="2"} 6`,
			`nv_inference_compute_output_summary_us{model="cat",version="2",quantile="0.5"} 3`,
		}, []string{"first_response", "nv_cache_hit_summary", "nv_cache_miss_summary"}},
		{"summaries of a cache", LatencyConfig{Summaries: true, Quantiles: quantiles}, true, []string{
			`nv_cache_hit_summary_per_model_count{model="cat",version="2"} 0`,
			`nv_cache_miss_summary_per_model_count{model="cat",version="2"} 3`,
		}, []string{"nv_inference_request_summary_us"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := source()
			v := s.Samples()[0].Version
			v.Model.MetricTags, v.Model.ResponseCache = nil, &edgewise.Switch{Enable: test.cache}
			sample := Sample{Version: v}
			s.Samples = func() []Sample { return []Sample{sample} }
			s.Latencies = NewLatencies(test.config)
			for range 3 {
				s.Latencies.Observe(v.ID, 80*time.Microsecond,
					edgewise.Timing{
						Queue: 70 * time.Microsecond, Input: time.Microsecond, Infer: 2 * time.Microsecond,
						Output: 3 * time.Microsecond, Batch: 1,
					})
			}
			page := pageOf(t, s)
			for _, line := range test.there {
				if !strings.Contains(page, line) {
					t.Errorf("%s is missing", line)
				}
			}
			for _, line := range test.never {
				if strings.Contains(page, line) {
					t.Errorf("%s is there", line)
				}
			}
		})
	}
}

func TestHitsAreSummarisedByThemselves(t *testing.T) {
	l := NewLatencies(LatencyConfig{Summaries: true})
	id := edgewise.ModelID{Name: "cat", Version: 2}
	l.Observe(id, time.Millisecond, edgewise.Timing{})
	kept, _ := l.versions.Load(id)
	out := make(chan prometheus.Metric, 10)
	sink{out: out}.summary("hit", kept.(*latency).summaries[summaryHit])
	sink{out: out}.summary("miss", kept.(*latency).summaries[summaryMiss])
	for i, want := range []uint64{1, 0} {
		if m := metricOf(t, <-out); m.GetSummary().GetSampleCount() != want {
			t.Errorf("summary %d has %d samples, want %d", i, m.GetSummary().GetSampleCount(), want)
		}
	}
}

func TestAModelChoosesItsBuckets(t *testing.T) {
	m := &edgewise.Model{}
	if err := json.Unmarshal([]byte(`{"model_metrics": {"metric_control": [
		{"metric_identifier": {"family": "other"}, "histogram_options": {"buckets": [1]}},
		{"metric_identifier": {"family": "`+firstResponseFamily+`"}, "histogram_options": {"buckets": [1, 7]}}]}}`), m); err != nil {
		t.Fatal(err)
	}
	h := newHistogram()
	for _, d := range []time.Duration{time.Nanosecond, time.Millisecond, 5 * time.Millisecond, time.Hour} {
		h.observe(d)
	}
	out := make(chan prometheus.Metric, 1)
	sink{out: out}.histogram("x", "", h, firstResponseBuckets(m), time.Millisecond)
	got := metricOf(t, <-out).GetHistogram()
	if len(got.GetBucket()) != 2 || got.GetBucket()[0].GetCumulativeCount() != 2 ||
		got.GetBucket()[1].GetCumulativeCount() != 3 || got.GetSampleCount() != 4 {
		t.Errorf("got %v", got)
	}
}

func TestVersionsThatAreGoneAreForgotten(t *testing.T) {
	l := NewLatencies(LatencyConfig{})
	l.Observe(edgewise.ModelID{Name: "old", Version: 1}, 1, edgewise.Timing{})
	l.keep(nil)
	if _, ok := l.versions.Load(edgewise.ModelID{Name: "old", Version: 1}); ok {
		t.Error("it is still there")
	}
}

func TestSwitchesOfThePage(t *testing.T) {
	s := source()
	page := pageOf(t, s)
	for _, name := range []string{
		"nv_inference_request_duration_us", "nv_inference_queue_duration_us", "nv_inference_compute_infer_duration_us",
		"nv_cpu_utilization ", "nv_cpu_memory_total_bytes ",
		"nv_cpu_memory_used_bytes ", "nv_pinned_memory_pool_total_bytes 0", "nv_pinned_memory_pool_used_bytes 0",
		`nv_model_load_duration_secs{_site="roof",model="cat",version="2"} 0`,
	} {
		if !strings.Contains(page, name) {
			t.Errorf("%s is missing", name)
		}
	}
	s.Durations, s.Machine = false, false
	page = pageOf(t, s)
	for _, name := range []string{"_duration_us", "nv_cpu_"} {
		if strings.Contains(page, name) {
			t.Errorf("%s is there", name)
		}
	}
}

func metricOf(t *testing.T, m prometheus.Metric) *dto.Metric {
	t.Helper()
	var written dto.Metric
	if err := m.Write(&written); err != nil {
		t.Fatal(err)
	}
	return &written
}

// TestTheFirstResponseOfADecoupledModel is measured by itself: the last one comes later.
func TestTheFirstResponseOfADecoupledModel(t *testing.T) {
	s := source()
	v := s.Samples()[0].Version
	v.Model.MetricTags, v.Model.ModelTransactionPolicy = nil, &edgewise.ModelTransactionPolicy{Decoupled: true}
	s.Latencies = NewLatencies(LatencyConfig{FirstResponse: true})
	s.Latencies.Observe(v.ID, time.Minute, edgewise.Timing{First: 200 * time.Millisecond})
	s.Samples = func() []Sample { return []Sample{{Version: v}} }
	page := pageOf(t, s)
	for _, want := range []string{
		`nv_inference_first_response_histogram_ms_bucket{model="cat",version="2",le="100"} 0`,
		`nv_inference_first_response_histogram_ms_bucket{model="cat",version="2",le="500"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
