package step

import (
	"bytes"
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
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
	x, y := value(t, a), value(t, b)
	if !floating(t) {
		return t != edgewise.Bool && tolerance > 0 && distance(t, a, b) <= tolerance*max(1, math.Abs(y))
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.IsNaN(x) && math.IsNaN(y)
	}
	return x == y || math.Abs(x-y) <= tolerance*max(1, math.Abs(y))
}

func floating(t edgewise.DataType) bool {
	return t == edgewise.FP16 || t == edgewise.BF16 || t == edgewise.FP32 || t == edgewise.FP64
}

// distance is how far two whole numbers are apart, exactly up to 2^53.
func distance(t edgewise.DataType, a, b []byte) float64 {
	x, y := whole(t, a), whole(t, b)
	if signed(t) && int64(x) < int64(y) || !signed(t) && x < y {
		x, y = y, x
	}
	return float64(x - y) // of signed numbers, too, as a difference without a sign
}

func signed(t edgewise.DataType) bool {
	return t == edgewise.Int8 || t == edgewise.Int16 || t == edgewise.Int32 || t == edgewise.Int64
}

// whole reads a whole number; a signed one is extended to 64 bits.
func whole(t edgewise.DataType, data []byte) uint64 {
	var bits uint64
	for i := len(data) - 1; i >= 0; i-- {
		bits = bits<<8 | uint64(data[i])
	}
	if unused := 64 - 8*len(data); signed(t) {
		return uint64(int64(bits<<unused) >> unused)
	}
	return bits
}

// shown is an element as a message has it, with all its digits.
func shown(t edgewise.DataType, data []byte) string {
	switch {
	case floating(t):
		return fmt.Sprint(value(t, data))
	case signed(t):
		return fmt.Sprint(int64(whole(t, data)))
	}
	return fmt.Sprint(whole(t, data))
}

// value reads one element; whole numbers above 2^53 lose digits, which only a message shows.
func value(t edgewise.DataType, data []byte) float64 {
	bits := whole(t, data)
	switch t {
	case edgewise.FP64:
		return math.Float64frombits(bits)
	case edgewise.FP32:
		return float64(math.Float32frombits(uint32(bits)))
	case edgewise.BF16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case edgewise.FP16:
		return half(uint16(bits))
	case edgewise.Int8, edgewise.Int16, edgewise.Int32, edgewise.Int64:
		return float64(int64(bits))
	}
	return float64(bits)
}

// half is the value of a number of 16 bits, IEEE 754 binary16.
func half(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(fraction, -24)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		v = math.Inf(1)
	case exponent > 0:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 == 1 {
		return -v
	}
	return v
}
