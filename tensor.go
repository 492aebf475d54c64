package edgewise

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
)

// MaxRank bounds the number of dimensions of a tensor.
const MaxRank = 32

// DataType is the element type of a tensor. Its numbers are those of the DataType enumeration of the inference
// protocol, which the step ABI uses too.
type DataType uint8

// The element types.
const (
	InvalidType DataType = iota
	Bool
	Uint8
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	FP16
	FP32
	FP64
	Bytes // variable length: each element is a little-endian uint32 length and that many bytes
	BF16
	dataTypes
)

// class is what the bits of an element stand for.
type class uint8

const (
	noNumber class = iota
	boolean
	unsigned
	signed
	floating
)

// dataTypeTable describes the element types.
var dataTypeTable = [dataTypes]struct {
	name     string // on the wire
	size     int64  // bytes of an element; 0: it varies
	class    class
	exponent int // bits of a floating-point number's exponent
}{
	InvalidType: {name: "INVALID"},
	Bool:        {"BOOL", 1, boolean, 0},
	Uint8:       {"UINT8", 1, unsigned, 0},
	Uint16:      {"UINT16", 2, unsigned, 0},
	Uint32:      {"UINT32", 4, unsigned, 0},
	Uint64:      {"UINT64", 8, unsigned, 0},
	Int8:        {"INT8", 1, signed, 0},
	Int16:       {"INT16", 2, signed, 0},
	Int32:       {"INT32", 4, signed, 0},
	Int64:       {"INT64", 8, signed, 0},
	FP16:        {"FP16", 2, floating, 5},
	FP32:        {"FP32", 4, floating, 8},
	FP64:        {"FP64", 8, floating, 11},
	Bytes:       {name: "BYTES"},
	BF16:        {"BF16", 2, floating, 8},
}

// DataTypes returns every element type but InvalidType, in order. Tables that must be total are tested against it.
func DataTypes() []DataType {
	var all []DataType
	for t := Bool; t < dataTypes; t++ {
		all = append(all, t)
	}
	return all
}

// String returns the name used on the wire, such as FP32 or BYTES.
func (t DataType) String() string {
	if t < dataTypes {
		return dataTypeTable[t].name
	}
	return fmt.Sprintf("DataType(%d)", uint8(t))
}

// Size returns the bytes of one element, 0 for Bytes and InvalidType.
func (t DataType) Size() int64 {
	if t < dataTypes {
		return dataTypeTable[t].size
	}
	return 0
}

// IsFloat tells whether the elements are floating-point numbers.
func (t DataType) IsFloat() bool { return t < dataTypes && dataTypeTable[t].class == floating }

// IsSigned tells whether the elements are integers with a sign.
func (t DataType) IsSigned() bool { return t < dataTypes && dataTypeTable[t].class == signed }

// IsUnsigned tells whether the elements are integers without a sign.
func (t DataType) IsUnsigned() bool { return t < dataTypes && dataTypeTable[t].class == unsigned }

// ExponentBits returns the bits of the exponent of a floating-point type. One bit is the sign, the others the mantissa.
func (t DataType) ExponentBits() int { return dataTypeTable[t].exponent }

// ParseDataType reads a wire name. ok is false when there is no such type.
func ParseDataType(name string) (t DataType, ok bool) {
	for t := Bool; t < dataTypes; t++ {
		if dataTypeTable[t].name == name {
			return t, true
		}
	}
	return InvalidType, false
}

// MarshalText returns the name used in a model configuration, such as TYPE_FP32 or TYPE_STRING.
func (t DataType) MarshalText() ([]byte, error) {
	if t == Bytes {
		return []byte("TYPE_STRING"), nil
	}
	return []byte("TYPE_" + t.String()), nil
}

// UnmarshalText reads a name used in a model configuration.
func (t *DataType) UnmarshalText(text []byte) error {
	name, ok := strings.CutPrefix(string(text), "TYPE_")
	switch {
	case !ok || name == "BYTES":
	case name == "STRING":
		*t = Bytes
		return nil
	case name == "INVALID":
		*t = InvalidType
		return nil
	default:
		if *t, ok = ParseDataType(name); ok {
			return nil
		}
	}
	var names [][]byte
	for _, known := range DataTypes() {
		name, _ := known.MarshalText()
		names = append(names, name)
	}
	return fmt.Errorf("unknown data type %q: want one of %s", text, bytes.Join(names, []byte(", ")))
}

// Shape is the size of each dimension. In a Spec, -1 stands for any size.
type Shape []int64

// Elements returns the number of elements, 1 for a scalar. ok is false when a dimension is negative or the product
// does not fit in an int64.
func (s Shape) Elements() (n int64, ok bool) {
	n = 1
	for _, d := range s {
		if d < 0 || (d > 0 && n > math.MaxInt64/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// String returns the shape as [1,3,224,224].
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, d)
	}
	b.WriteByte(']')
	return b.String()
}

// Accepts tells whether a tensor of shape t satisfies s: same rank, and equal wherever s is not -1.
func (s Shape) Accepts(t Shape) bool {
	if len(s) != len(t) {
		return false
	}
	for i, d := range s {
		if t[i] < 0 || (d >= 0 && t[i] != d) {
			return false
		}
	}
	return true
}

// Equal tells whether both shapes are the same, -1 being equal to -1 only.
func (s Shape) Equal(t Shape) bool {
	if len(s) != len(t) {
		return false
	}
	for i := range s {
		if s[i] != t[i] {
			return false
		}
	}
	return true
}

// Tensor is a dense, row-major, little-endian block: len(Data) == Shape.Elements()*Type.Size(), except for Bytes,
// whose elements carry a four-byte length each.
//
// Ownership of Data: a Request borrows the bytes of its caller until Infer returns. They are read until then and never
// afterwards, and are not written to. The receiver of a Response borrows the bytes of its outputs until
// Response.Release. By this contract tensor bytes go from the socket's buffer into the runtime, and from the runtime
// into the answer, with at most one copy each.
type Tensor struct {
	Name  string
	Type  DataType
	Shape Shape
	Data  []byte

	Pictures *Pictures // what Data is to be made of; nil: Data is there. See Pictures
}

// Check reports the first reason why t is not a well-formed tensor: rank, shape overflow, length of Data, or the
// framing of Bytes. The message names the tensor.
func (t *Tensor) Check() error {
	if len(t.Shape) > MaxRank {
		return fmt.Errorf("tensor %q: %d dimensions, at most %d are allowed", t.Name, len(t.Shape), MaxRank)
	}
	n, ok := t.Shape.Elements()
	if !ok {
		return fmt.Errorf("tensor %q: shape %v has a negative size or too many elements", t.Name, t.Shape)
	}
	if t.Type == Bytes {
		if CheckFraming(t.Data, n, "") == nil {
			return nil
		}
		return CheckFraming(t.Data, n, fmt.Sprintf("for tensor '%s'", t.Name))
	}
	size := t.Type.Size()
	if size == 0 {
		return fmt.Errorf("tensor %q: unknown data type %v", t.Name, t.Type)
	}
	if n > math.MaxInt64/size || int64(len(t.Data)) != n*size {
		return fmt.Errorf("tensor %q: %v%v takes %d elements of %d bytes, got %d bytes", t.Name, t.Type, t.Shape, n, size,
			len(t.Data))
	}
	return nil
}

// lengthSize is the size of the length before each element of type Bytes.
const lengthSize = 4

// CheckFraming returns nil when data is exactly n elements of type Bytes, and otherwise why it is not, in Triton's
// words. place says what the data is for, such as "for inference input 'x'"; it may be empty.
func CheckFraming(data []byte, n int64, place string) error {
	if place != "" {
		place = " " + place
	}
	var seen int64
	for rest := data; len(rest) > 0; seen++ {
		if len(rest) < lengthSize {
			return fmt.Errorf("incomplete string length indicator%s, expecting %d bytes but only %d bytes available. "+
				"Please make sure the string length indicator is in one buffer.", place, lengthSize, len(rest))
		}
		if seen >= n { // where Triton stops counting
			return fmt.Errorf("unexpected number of string elements %d%s, expecting %d", seen+1, place, n)
		}
		size := int64(binary.LittleEndian.Uint32(rest))
		rest = rest[lengthSize:]
		if size > int64(len(rest)) {
			return fmt.Errorf("incomplete string data%s, expecting string of length %d but only %d bytes available", place,
				size, len(rest))
		}
		rest = rest[size:]
	}
	switch {
	case seen > n: // n is below 0
		return fmt.Errorf("unexpected number of string elements %d%s, expecting %d", seen, place, n)
	case seen < n:
		return fmt.Errorf("expected %d string elements%s, got %d", n, place, seen)
	}
	return nil
}

// AppendElement appends one element of type Bytes to data.
func AppendElement(data []byte, element string) []byte {
	data = binary.LittleEndian.AppendUint32(data, uint32(len(element)))
	return append(data, element...)
}

// Elements yields the elements of well-framed Bytes data. The slices alias data. It stops at the first bad frame.
func Elements(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) >= 4 {
			size := int64(binary.LittleEndian.Uint32(data))
			data = data[4:]
			if size > int64(len(data)) || !yield(data[:size]) {
				return
			}
			data = data[size:]
		}
	}
}

// Spec is what a model says of one of its tensors, as a client sees it: Shape includes the batch dimension, and -1
// stands for any size.
type Spec struct {
	Name     string
	Type     DataType
	Shape    Shape
	Optional bool
}
