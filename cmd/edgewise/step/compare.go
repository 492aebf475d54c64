package step

import (
	"bytes"
	"encoding/binary"
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
		x, y := value(got.Type, a), value(got.Type, b)
		if !close(x, y, tolerance, got.Type) {
			return fmt.Sprintf("output %q, element %d of %v, is %v: want %v", want.Name, i, got.Shape, x, y)
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

// close tells whether two floating point elements mean the same; both NaN do.
func close(x, y, tolerance float64, t edgewise.DataType) bool {
	switch t {
	case edgewise.FP16, edgewise.BF16, edgewise.FP32, edgewise.FP64:
	default:
		return false
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.IsNaN(x) && math.IsNaN(y)
	}
	return x == y || math.Abs(x-y) <= tolerance*max(1, math.Abs(y))
}

// value reads one element; whole numbers above 2^53 lose digits, which only a message shows.
func value(t edgewise.DataType, data []byte) float64 {
	var bits uint64
	for i := len(data) - 1; i >= 0; i-- {
		bits = bits<<8 | uint64(data[i])
	}
	switch t {
	case edgewise.FP64:
		return math.Float64frombits(bits)
	case edgewise.FP32:
		return float64(math.Float32frombits(uint32(bits)))
	case edgewise.BF16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case edgewise.FP16:
		return half(uint16(bits))
	case edgewise.Int8:
		return float64(int8(bits))
	case edgewise.Int16:
		return float64(int16(bits))
	case edgewise.Int32:
		return float64(int32(bits))
	case edgewise.Int64:
		return float64(int64(binary.LittleEndian.Uint64(data)))
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
