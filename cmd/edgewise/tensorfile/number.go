package tensorfile

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// appendFloat appends value as a floating point element of type t, rounded to nearest even. t is FP16, BF16, FP32 or
// FP64.
func appendFloat(data []byte, t edgewise.DataType, value float64) []byte {
	switch t {
	case edgewise.FP16:
		return binary.LittleEndian.AppendUint16(data, half(value))
	case edgewise.BF16:
		return binary.LittleEndian.AppendUint16(data, brain(value))
	case edgewise.FP32:
		return binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(value)))
	}
	return binary.LittleEndian.AppendUint64(data, math.Float64bits(value))
}

// half returns value as an IEEE 754 binary16. Numbers beyond its range become infinite.
func half(value float64) uint16 {
	bits := math.Float64bits(value)
	sign := uint16(bits>>48) & 0x8000
	magnitude := math.Abs(value)
	switch {
	case math.IsNaN(value):
		return sign | 0x7e00
	case magnitude >= 65520: // halfway between the largest half, 65504, and the next power of two
		return sign | 0x7c00
	case magnitude < 0x1p-14: // a subnormal: a multiple of 2^-24; 1024 of them are the smallest normal number
		return sign | uint16(math.RoundToEven(magnitude*0x1p24))
	}
	fraction, exponent := math.Frexp(magnitude)
	// A carry out of the fraction goes into the exponent, which is what rounding up to a power of two is.
	return sign | (uint16(exponent+13)<<10 + uint16(math.RoundToEven(fraction*2048)))
}

// brain returns value as a bfloat16, the upper half of a float32.
func brain(value float64) uint16 {
	bits := math.Float32bits(float32(value))
	if math.IsNaN(value) {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// overflows tells whether value is a number that would become infinite in the floating point type t.
func overflows(t edgewise.DataType, value float64) bool {
	switch t {
	case edgewise.FP16:
		return half(value)&0x7fff == 0x7c00
	case edgewise.BF16:
		return brain(value)&0x7fff == 0x7f80
	case edgewise.FP32:
		return math.IsInf(float64(float32(value)), 0)
	}
	return math.IsInf(value, 0)
}

// isFloat tells whether t is a floating point type.
func isFloat(t edgewise.DataType) bool {
	return t == edgewise.FP16 || t == edgewise.BF16 || t == edgewise.FP32 || t == edgewise.FP64
}
