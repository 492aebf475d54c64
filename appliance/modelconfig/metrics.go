package modelconfig

import "github.com/edgewise-ai/edgewise"

// firstResponseFamily is the one family of metrics whose buckets a model may choose, as in Triton.
const firstResponseFamily = "nv_inference_first_response_histogram_ms"

// MaxBuckets bounds the buckets of a histogram.
const MaxBuckets = 64

// metrics checks the buckets that a model chooses.
func (c *checker) metrics() {
	if c.m.ModelMetrics == nil {
		return
	}
	for _, control := range c.m.ModelMetrics.MetricControl {
		if control.HistogramOptions == nil || !isFirstResponse(control) {
			continue
		}
		buckets := control.HistogramOptions.Buckets
		if len(buckets) > MaxBuckets {
			c.problem("model_metrics: %d buckets: at most %d are allowed", len(buckets), MaxBuckets)
		}
		for i, b := range buckets {
			if !(b > 0) || i > 0 && b <= buckets[i-1] {
				c.problem("model_metrics: bucket %v: want numbers above 0, each larger than the one before", b)
				break
			}
		}
	}
}

func isFirstResponse(control edgewise.MetricControl) bool {
	return control.MetricIdentifier != nil && control.MetricIdentifier.Family == firstResponseFamily
}
