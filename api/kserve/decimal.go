package kserve

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

// form describes the form of a number.
type form uint8

const (
	negative   form = 1 << iota // it began with a minus sign
	fractional                  // it had a fraction or an exponent
	cut                         // it had more digits than mant holds
	malformed                   // it is not a JSON number; end is where it stops being one
)

const (
	eightDigitRoom = 100_000_000_000           // a mantissa below it takes eight more digits
	oneDigitRoom   = 1_000_000_000_000_000_000 // a mantissa below it takes one more digit
	exponentCap    = 1 << 40                   // exponents are not counted further; far outside every type
)

// scanDecimal reads the JSON number at b[p]. Its value is mant * 10^exp, exactly unless cut is set, when digits after
// the nineteenth were left out: then the value is between mant and mant+1, times 10^exp.
func scanDecimal(b []byte, p int) (mant uint64, exp, end int, f form) {
	if p < len(b) && b[p] == '-' {
		f = negative
		p++
	}
	if p >= len(b) || !isDigit(b[p]) {
		return 0, 0, p, f | malformed
	}
	if b[p] == '0' {
		if p++; p < len(b) && isDigit(b[p]) {
			return 0, 0, p, f | malformed
		}
	} else {
		for p < len(b) && isDigit(b[p]) {
			if mant < oneDigitRoom {
				mant = mant*10 + uint64(b[p]-'0')
			} else {
				f |= cut
				exp++
			}
			p++
		}
	}
	if p < len(b) && b[p] == '.' {
		f |= fractional
		p++
		first := p
		if mant, exp, p, f = scanFraction(b, p, mant, exp, f); p == first {
			return 0, 0, p, f | malformed
		}
	}
	if p < len(b) && b[p]|0x20 == 'e' {
		return scanExponent(b, p+1, mant, exp, f|fractional)
	}
	return mant, exp, p, f
}

// scanFraction reads the digits after the point, eight at a time while there is room for them.
func scanFraction(b []byte, p int, mant uint64, exp int, f form) (uint64, int, int, form) {
	for mant < eightDigitRoom && p+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[p:]) ^ 0x3030303030303030
		n := bits.TrailingZeros64((w+0x7676767676767676|w)&0x8080808080808080) >> 3
		// Bytes that are no digits move out; the zeros that move in are leading digits.
		mant = mant*powers10[n&15] + eightDigits(w<<(uint(8-n)*8))
		p += n
		exp -= n
		if n < 8 {
			return mant, exp, p, f
		}
	}
	for p < len(b) && isDigit(b[p]) {
		if mant < oneDigitRoom {
			mant = mant*10 + uint64(b[p]-'0')
			exp--
		} else {
			f |= cut
		}
		p++
	}
	return mant, exp, p, f
}

// eightDigits returns the number whose decimal digits are the bytes of w, the lowest byte first.
func eightDigits(w uint64) uint64 {
	w = w * 2561 >> 8
	w = (w & 0x00FF00FF00FF00FF) * 6553601 >> 16
	return (w & 0x0000FFFF0000FFFF) * 42949672960001 >> 32
}

func scanExponent(b []byte, p int, mant uint64, exp int, f form) (uint64, int, int, form) {
	down := false
	if p < len(b) && (b[p] == '-' || b[p] == '+') {
		down = b[p] == '-'
		p++
	}
	first, e := p, 0
	for p < len(b) && isDigit(b[p]) {
		if e < exponentCap {
			e = e*10 + int(b[p]-'0')
		}
		p++
	}
	if p == first {
		return 0, 0, p, f | malformed
	}
	if down {
		e = -e
	}
	return mant, exp + e, p, f
}

// toFloat32 returns mant * 10^exp rounded to the nearest float32, without its sign. ok is false when that takes more
// care than this fast way: the value is not surely on one side of the middle between two floats, or is not a normal
// float32.
//
// The float64 computed on the way is off by three roundings (of mant, of the power, of the result), at most 2^-53 of
// the value each, and by digits that were cut, at most 10^-18 of it: less than guard units in its last place.
func toFloat32(mant uint64, exp int) (v float32, ok bool) {
	const (
		guard    = 16
		low      = 1<<29 - 1 // bits of a float64 that a float32 has not
		middle   = 1 << 28
		smallest = 0x1p-126
		largest  = 3.4e38
	)
	if mant == 0 {
		return 0, true
	}
	f := float64(mant)
	switch {
	case exp < 0 && exp > -len(tens):
		f /= tens[-exp]
	case exp >= 0 && exp < len(tens):
		f *= tens[exp]
	default:
		return 0, false
	}
	if f < smallest || f > largest || math.Float64bits(f)&low-(middle-guard) <= 2*guard {
		return 0, false
	}
	return float32(f), true
}

// toFloat64 returns mant * 10^exp without its sign, when a float64 holds both exactly: then one rounding makes the
// nearest float64.
func toFloat64(mant uint64, exp int, f form) (v float64, ok bool) {
	const exactPower = 22 // 10^22 is the last power of ten that a float64 holds exactly
	switch {
	case mant == 0:
		return 0, true
	case f&cut != 0 || mant > 1<<53:
		return 0, false
	case exp >= 0 && exp <= exactPower:
		return float64(mant) * tens[exp], true
	case exp < 0 && exp >= -exactPower:
		return float64(mant) / tens[-exp], true
	}
	return 0, false
}

// parseFloat is strconv.ParseFloat on bytes. text is a JSON number, so the only failure is a value out of range.
func parseFloat(text []byte, bitSize int) (v float64, ok bool) {
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), bitSize)
	return v, err == nil
}

// parseUint reads an integer without sign that has more digits than scanDecimal keeps.
func parseUint(digits []byte) (v uint64, ok bool) {
	v, err := strconv.ParseUint(unsafe.String(unsafe.SliceData(digits), len(digits)), 10, 64)
	return v, err == nil
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

var powers10 = [16]uint64{1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000}

var tens = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
	1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38,
	1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51, 1e52, 1e53, 1e54, 1e55,
}
