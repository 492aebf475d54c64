package editor

import (
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
)

// summarise describes a tensor of numbers. It returns nil for text and for a tensor without elements.
func summarise(t *edgewise.Tensor) *admin.TensorSummary {
	size := int(t.Type.Size())
	if size == 0 || len(t.Data) < size {
		return nil
	}
	s := &admin.TensorSummary{Min: math.Inf(1), Max: math.Inf(-1)}
	finite := int64(0)
	for at := 0; at+size <= len(t.Data); at += size {
		x := scalar.Float(t.Type, t.Data[at:])
		if math.IsNaN(x) || math.IsInf(x, 0) {
			s.NotFinite++
			continue
		}
		if x == 0 {
			s.Zeros++
		}
		finite++
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
		s.Mean += x/float64(finite) - s.Mean/float64(finite) // the difference of two finite numbers may be infinite
	}
	if finite == 0 {
		s.Min, s.Max = 0, 0
	}
	return s
}
