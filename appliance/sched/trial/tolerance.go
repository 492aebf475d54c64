package trial

import (
	"bytes"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// tolerance is how much two outputs of the same rows may differ, for each type, as a part of the largest number of the
// output: kernels add in another order for another number of rows. Integers, truth values and strings do not differ.
func tolerance(t edgewise.DataType) float64 {
	switch t {
	case edgewise.FP64:
		return 1e-10
	case edgewise.FP32:
		return 1e-4
	case edgewise.FP16:
		return 1e-2
	case edgewise.BF16:
		return 5e-2
	}
	return 0
}

// Alike tells whether two lists of elements are the same within the tolerance of their type; scale is the largest
// number around. NaN equals NaN, and infinity equals infinity of the same sign.
func Alike(t edgewise.DataType, a, b []byte, scale float64) bool {
	most := tolerance(t)
	if most == 0 || bytes.Equal(a, b) {
		return bytes.Equal(a, b)
	}
	if len(a) != len(b) {
		return false
	}
	size := int(t.Size())
	for at := 0; at+size <= len(a); at += size {
		x, y := scalar.Float(t, a[at:]), scalar.Float(t, b[at:])
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= most*scale) { // also when one is not a number
			return false
		}
	}
	return true
}

// Magnitude is the largest number of a tensor; 0 for types without a tolerance.
func Magnitude(t *edgewise.Tensor) (most float64) {
	if tolerance(t.Type) == 0 {
		return 0
	}
	size := int(t.Type.Size())
	for at := 0; at+size <= len(t.Data); at += size {
		if v := math.Abs(scalar.Float(t.Type, t.Data[at:])); v > most && !math.IsInf(v, 0) {
			most = v
		}
	}
	return most
}
