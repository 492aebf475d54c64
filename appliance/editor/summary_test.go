package editor

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// TestASummaryIsAlwaysNumbers sums up what is as large as numbers are: what is not finite cannot be shown.
func TestASummaryIsAlwaysNumbers(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		mean   float64
	}{
		"small":             {[]float64{1, 2, 3, 6}, 3},
		"from end to end":   {[]float64{-math.MaxFloat64, math.MaxFloat64}, 0},
		"the largest twice": {[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
		"not all finite":    {[]float64{math.Inf(1), 4, math.NaN()}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var data []byte
			for _, v := range test.values {
				data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
			}
			s := summarise(&edgewise.Tensor{Type: edgewise.FP64, Shape: edgewise.Shape{int64(len(test.values))}, Data: data})
			if _, err := json.Marshal(s); err != nil || s.Mean != test.mean {
				t.Errorf("mean %v, want %v: %v", s.Mean, test.mean, err)
			}
		})
	}
}
