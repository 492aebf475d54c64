package step

import (
	"bytes"
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// compare says how got differs from want, "" when it does not: type, shape, and the first element that is off.
func compare(got, want *edgewise.Tensor, tolerance float64) string {
	if got.Type != want.Type || !got.Shape.Equal(want.Shape) {
		return fmt.Sprintf("output %q is %v%v: want %v%v", want.Name, got.Type, got.Shape, want.Type, want.Shape)
	}
	if bytes.Equal(got.Data, want.Data) {
		return ""
	}
	if got.Type == edgewise.Bytes {
		return compareBytes(got, want)
	}
	size := int(got.Type.Size())
	for i := range len(want.Data) / size {
		a, b := got.Data[i*size:][:size], want.Data[i*size:][:size]
		if bytes.Equal(a, b) {
			continue
		}
		if !close(got.Type, a, b, tolerance) {
			return fmt.Sprintf("output %q, element %d of %v, is %v: want %v", want.Name, i, got.Shape, shown(got.Type, a), shown(got.Type, b))
		}
	}
	return ""
}

func compareBytes(got, want *edgewise.Tensor) string {
	var wanted [][]byte
	for e := range edgewise.Elements(want.Data) {
		wanted = append(wanted, e)
	}
	i := 0
	for e := range edgewise.Elements(got.Data) {
		if !bytes.Equal(e, wanted[i]) {
			return fmt.Sprintf("output %q, element %d of %v, is %.80q: want %.80q", want.Name, i, got.Shape, e, wanted[i])
		}
		i++
	}
	return fmt.Sprintf("output %q: the framing differs", want.Name)
}

// close tells whether two elements mean the same: they are equal, both NaN, or numbers within the tolerance, which is
// absolute up to a wanted value of 1 and relative above. BOOL has no tolerance.
func close(t edgewise.DataType, a, b []byte, tolerance float64) bool {
	x, y := scalar.Float(t, a), scalar.Float(t, b)
	if !t.IsFloat() {
		return t != edgewise.Bool && tolerance > 0 && distance(t, a, b) <= tolerance*max(1, math.Abs(y))
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.IsNaN(x) && math.IsNaN(y)
	}
	return x == y || math.Abs(x-y) <= tolerance*max(1, math.Abs(y))
}

// distance is how far two whole numbers are apart, exactly up to 2^53.
func distance(t edgewise.DataType, a, b []byte) float64 {
	x, y := scalar.Bits(t, a), scalar.Bits(t, b)
	if t.IsSigned() && int64(x) < int64(y) || !t.IsSigned() && x < y {
		x, y = y, x
	}
	return float64(x - y) // of signed numbers, too, as a difference without a sign
}

// shown is an element as a message has it, with all its digits.
func shown(t edgewise.DataType, data []byte) string {
	switch {
	case t.IsFloat():
		return fmt.Sprint(scalar.Float(t, data))
	case t.IsSigned():
		return fmt.Sprint(int64(scalar.Bits(t, data)))
	}
	return fmt.Sprint(scalar.Bits(t, data))
}
