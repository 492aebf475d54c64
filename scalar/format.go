package scalar

import (
	"math"

	"github.com/edgewise-ai/edgewise"
)

// format describes a floating-point type of at most 16 bits: a sign, an exponent and mantissa bits.
type format struct {
	bits, mantissa int
	bias           int
}

func formatOf(t edgewise.DataType) format {
	bits, exponent := 8*int(t.Size()), t.ExponentBits()
	return format{bits: bits, mantissa: bits - 1 - exponent, bias: 1<<(exponent-1) - 1}
}

// Round returns the bits of t, a floating-point type of at most 16 bits, nearest to v, ties to even. Where v is itself
// rounded from another number, side tells how that compares with v: -1, 0 or 1. It is asked when v is in the middle of
// two elements; nil: v is exact. ok is false when the value does not fit; NaN and the infinities always do.
func Round(t edgewise.DataType, v float64, side func() int) (bits uint64, ok bool) {
	f := formatOf(t)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return f.special(v), true
	}
	abs := math.Abs(v)
	_, e := math.Frexp(abs) // abs is in [2^(e-1), 2^e)
	exponent := max(e-1, 1-f.bias)
	if abs == 0 {
		exponent = 1 - f.bias
	}
	scaled := math.Ldexp(abs, f.mantissa-exponent)
	whole := math.Floor(scaled)
	switch rest := scaled - whole; {
	case rest > 0.5:
		whole++
	case rest == 0.5:
		above := 0
		if side != nil {
			above = side()
		}
		if above > 0 || above == 0 && math.Mod(whole, 2) == 1 {
			whole++
		}
	}
	// A whole that reached the next power of two carries into the exponent by itself.
	bits = uint64(exponent+f.bias-1)<<f.mantissa + uint64(whole)
	if bits >= f.infinity() {
		return 0, false
	}
	return bits | f.sign(v), true
}

func (f format) infinity() uint64 { return uint64(2*f.bias+1) << f.mantissa }

func (f format) sign(v float64) uint64 {
	if math.Signbit(v) {
		return 1 << (f.bits - 1)
	}
	return 0
}

// special returns the bits of NaN or an infinity.
func (f format) special(v float64) uint64 {
	if math.IsNaN(v) {
		return f.infinity() | 1<<(f.mantissa-1)
	}
	return f.infinity() | f.sign(v)
}

// value returns what bits stand for. Every value is a float32.
func (f format) value(bits uint64) float64 {
	abs := bits &^ (1 << (f.bits - 1))
	mantissa, exponent := abs&(1<<f.mantissa-1), int(abs>>f.mantissa)
	var v float64
	switch {
	case abs > f.infinity():
		return math.NaN()
	case abs == f.infinity():
		v = math.Inf(1)
	case exponent == 0:
		v = math.Ldexp(float64(mantissa), 1-f.bias-f.mantissa)
	default:
		v = math.Ldexp(float64(mantissa|1<<f.mantissa), exponent-f.bias-f.mantissa)
	}
	if abs != bits {
		return -v
	}
	return v
}
