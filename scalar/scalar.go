// Package scalar reads and writes single elements of tensors of numbers. An element is little-endian and has the size
// of its data type. No function takes elements of type Bytes.
package scalar

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// Bits returns the bits of the element at the start of data; those of a signed integer are extended to 64.
func Bits(t edgewise.DataType, data []byte) uint64 {
	var bits uint64
	switch t.Size() {
	case 1:
		bits = uint64(data[0])
	case 2:
		bits = uint64(binary.LittleEndian.Uint16(data))
	case 4:
		bits = uint64(binary.LittleEndian.Uint32(data))
	default:
		return binary.LittleEndian.Uint64(data)
	}
	if t.IsSigned() {
		unused := 64 - 8*t.Size()
		return uint64(int64(bits<<unused) >> unused)
	}
	return bits
}

// AppendBits appends an element that has the low bits of bits.
func AppendBits(dst []byte, t edgewise.DataType, bits uint64) []byte {
	switch t.Size() {
	case 1:
		return append(dst, byte(bits))
	case 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(bits))
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(bits))
	}
	return binary.LittleEndian.AppendUint64(dst, bits)
}

// Float returns the value of the element at the start of data. Integers above 2^53 are rounded.
func Float(t edgewise.DataType, data []byte) float64 {
	switch {
	case t == edgewise.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case t == edgewise.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(data))
	case t.IsFloat():
		return formatOf(t).value(Bits(t, data))
	case t.IsSigned():
		return float64(int64(Bits(t, data)))
	}
	return float64(Bits(t, data))
}

// AppendFloat appends the element of a floating-point type nearest to v, ties to even. Numbers beyond the type's range
// become infinite.
func AppendFloat(dst []byte, t edgewise.DataType, v float64) []byte {
	switch t {
	case edgewise.FP32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	case edgewise.FP64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	bits, ok := Round(t, v, nil)
	if !ok {
		bits = formatOf(t).special(math.Copysign(math.Inf(1), v))
	}
	return AppendBits(dst, t, bits)
}

// AppendInteger appends the element at the start of data, an integer or a truth value, as text.
func AppendInteger(dst []byte, t edgewise.DataType, data []byte) []byte {
	switch bits := Bits(t, data); {
	case t == edgewise.Bool:
		return strconv.AppendBool(dst, bits != 0)
	case t.IsSigned():
		return strconv.AppendInt(dst, int64(bits), 10)
	default:
		return strconv.AppendUint(dst, bits, 10)
	}
}

// ParseInteger returns the bits of an integer type that text, a decimal number, stands for. ok is false when the type
// does not hold it.
func ParseInteger(t edgewise.DataType, text string) (bits uint64, ok bool) {
	size := 8 * int(t.Size())
	if t.IsSigned() {
		v, err := strconv.ParseInt(text, 10, size)
		return uint64(v), err == nil
	}
	bits, err := strconv.ParseUint(text, 10, size)
	return bits, err == nil
}
