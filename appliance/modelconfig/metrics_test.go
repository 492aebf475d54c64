package modelconfig

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestBucketsOfAModel(t *testing.T) {
	many := make([]float64, MaxBuckets+1)
	for i := range many {
		many[i] = float64(i + 1)
	}
	for _, test := range []struct {
		name    string
		buckets []float64
		want    string
	}{
		{"none", nil, ""},
		{"as many as allowed", many[:MaxBuckets], ""},
		{"too many", many, "65 buckets: at most 64 are allowed"},
		{"not above 0", []float64{0, 1}, "bucket 0: want numbers above 0"},
		{"out of order", []float64{1, 3, 2}, "bucket 2: want numbers above 0, each larger than the one before"},
		{"the same twice", []float64{1, 1}, "bucket 1: want"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &checker{m: &edgewise.Model{ModelMetrics: &edgewise.ModelMetrics{MetricControl: []edgewise.MetricControl{
				{MetricIdentifier: &edgewise.MetricIdentifier{Family: firstResponseFamily}, HistogramOptions: &edgewise.HistogramOptions{Buckets: test.buckets}},
			}}}}
			c.metrics()
			if got := strings.Join(c.problems, "|"); got != test.want && (test.want == "" || !strings.Contains(got, test.want)) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
