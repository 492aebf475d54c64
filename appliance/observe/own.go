package observe

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Own is a metric that a model makes. Those of a name have one kind and one help.
type Own struct {
	Name, Kind, Help string // the kind is counter, gauge or histogram
	Series
}

// Series is what a metric of a model's says.
type Series struct {
	Labels map[string]string
	Value  float64   // of a counter or a gauge; the sum of a histogram
	Bounds []float64 // of a histogram, ascending
	Counts []uint64  // of the values up to each bound, each value counted once
	Count  uint64    // of all values
}

// collectOwn sends the metrics that models make.
func (c *collector) collectOwn(to sink) {
	if c.source.Own == nil {
		return
	}
	for _, m := range c.source.Own() {
		names := slices.Sorted(maps.Keys(m.Labels))
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = m.Labels[name]
		}
		description := prometheus.NewDesc(m.Name, m.Help, names, nil)
		if m.Kind != "histogram" {
			kind := prometheus.GaugeValue
			if m.Kind == "counter" {
				kind = prometheus.CounterValue
			}
			to.out <- prometheus.MustNewConstMetric(description, kind, m.Value, values...)
			continue
		}
		buckets, sum := map[float64]uint64{}, uint64(0)
		for i, bound := range m.Bounds {
			sum += m.Counts[i]
			buckets[bound] = sum
		}
		to.out <- prometheus.MustNewConstHistogram(description, m.Count, m.Value, buckets, values...)
	}
}
