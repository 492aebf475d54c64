package kserve

import (
	"bytes"
	"math"
	"strconv"
)

// narrow describes a floating type of 16 bits: a sign, an exponent, and mant bits of mantissa.
type narrow struct {
	mant int
	bias int
}

var (
	fp16 = narrow{mant: 10, bias: 15}
	bf16 = narrow{mant: 7, bias: 127}
)

// round returns the bits of the value of n nearest to the JSON number text, ties to even. v is text as a float64. ok is
// false when the value does not fit.
//
// v is correctly rounded, so it is on the same side of every value that a float64 holds as the number itself, or equal
// to that value. The middles between neighbours of n are such values. Only when v is a middle does the text decide.
func (n narrow) round(v float64, text []byte) (bits uint16, ok bool) {
	abs := math.Abs(v)
	_, e := math.Frexp(abs) // abs is in [2^(e-1), 2^e)
	exponent := max(e-1, 1-n.bias)
	if abs == 0 {
		exponent = 1 - n.bias
	}
	scaled := math.Ldexp(abs, n.mant-exponent)
	whole := math.Floor(scaled)
	switch rest := scaled - whole; {
	case rest > 0.5:
		whole++
	case rest == 0.5:
		side := compareDecimal(text, abs)
		if side > 0 || side == 0 && math.Mod(whole, 2) == 1 {
			whole++
		}
	}
	// A whole that reached the next power of two carries into the exponent by itself.
	wide := uint64(exponent+n.bias-1)<<n.mant + uint64(whole)
	if wide >= uint64(2*n.bias+1)<<n.mant {
		return 0, false
	}
	if math.Signbit(v) {
		wide |= 1 << 15
	}
	return uint16(wide), true
}

// special returns the bits of NaN, Infinity or -Infinity.
func (n narrow) special(v float64) uint16 {
	bits := uint16(2*n.bias+1) << n.mant
	switch {
	case math.IsNaN(v):
		return bits | 1<<(n.mant-1)
	case v < 0:
		return bits | 1<<15
	}
	return bits
}

// value returns what bits stand for. Every value of n is a float32.
func (n narrow) value(bits uint16) float32 {
	mant := uint32(bits) & (1<<n.mant - 1)
	exponent := int(bits&0x7FFF) >> n.mant
	var abs float64
	switch {
	case exponent == 2*n.bias+1 && mant != 0:
		return float32(math.NaN())
	case exponent == 2*n.bias+1:
		abs = math.Inf(1)
	case exponent == 0:
		abs = math.Ldexp(float64(mant), 1-n.bias-n.mant)
	default:
		abs = math.Ldexp(float64(mant|1<<n.mant), exponent-n.bias-n.mant)
	}
	if bits>>15 == 1 {
		abs = -abs
	}
	return float32(abs)
}

// compareDecimal compares the size of the JSON number text, leaving its sign out, with v, which is above 0 and has no
// more than 200 decimal digits. It returns -1, 0 or 1 as bytes.Compare does.
func compareDecimal(text []byte, v float64) int {
	digits, point := significant(text)
	other, otherPoint := significant(strconv.AppendFloat(nil, v, 'e', 200, 64))
	switch {
	case len(digits) == 0:
		return -1
	case point < otherPoint:
		return -1
	case point > otherPoint:
		return 1
	}
	return bytes.Compare(digits, other)
}

// significant returns the digits of a number from the first to the last that is not 0, and where the point is: the
// number is 0.digits * 10^point.
func significant(text []byte) (digits []byte, point int) {
	text = bytes.TrimPrefix(text, []byte("-"))
	exp := 0
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		_, exp, _, _ = scanExponent(text, e+1, 0, 0, 0)
		text = text[:e]
	}
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	digits = append(append(make([]byte, 0, len(text)), whole...), fraction...)
	point = len(whole) + exp
	trimmed := bytes.TrimLeft(digits, "0")
	point -= len(digits) - len(trimmed)
	return bytes.TrimRight(trimmed, "0"), point
}
