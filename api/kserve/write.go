package kserve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// appendElements appends the elements of t, which is well-formed, as a flat JSON array.
//
// Floats are written in the shortest form that reads back to the same bits of their own type; FP16 and BF16 in that of
// the float32 of equal value. NaN and the infinities are the bare words NaN, Infinity and -Infinity. Errors: Invalid
// for an element of type Bytes that is not valid UTF-8.
func appendElements(dst []byte, t *edgewise.Tensor) ([]byte, error) {
	if t.Type == edgewise.Bytes {
		return appendStrings(dst, t)
	}
	size := int(t.Type.Size())
	dst = append(dst, '[')
	for at := 0; at+size <= len(t.Data); at += size {
		if at > 0 {
			dst = append(dst, ',')
		}
		dst = appendElement(dst, t.Type, t.Data[at:])
	}
	return append(dst, ']'), nil
}

// appendElement appends the number at the start of data.
func appendElement(dst []byte, typ edgewise.DataType, data []byte) []byte {
	if !typ.IsFloat() {
		return scalar.AppendInteger(dst, typ, data)
	}
	bitSize := 32 // of the Go type in which the element is exact
	if typ == edgewise.FP64 {
		bitSize = 64
	}
	return appendFloat(dst, scalar.Float(typ, data), bitSize)
}

func appendFloat(dst []byte, v float64, bitSize int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, bitSize)
}

func appendStrings(dst []byte, t *edgewise.Tensor) ([]byte, error) {
	dst = append(dst, '[')
	i := 0
	for element := range edgewise.Elements(t.Data) {
		if !utf8.Valid(element) {
			return dst, &edgewise.Error{
				Op: opEncode, Kind: edgewise.Invalid,
				Err: &TensorError{Tensor: t.Name, Err: notText(t.Name, i)},
			}
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, element)
		i++
	}
	return append(dst, ']'), nil
}

func notText(name string, i int) error {
	return fmt.Errorf("tensor %q: element %d is not valid UTF-8, which JSON cannot carry: use the binary form", name, i)
}

func appendShape(dst []byte, shape edgewise.Shape) []byte {
	dst = append(dst, '[')
	for i, d := range shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, d, 10)
	}
	return append(dst, ']')
}

// appendScalars appends the members of a JSON object, sorted by name. comma says whether members stand before them.
// Errors: Invalid for a value that is no string, integer, bool or finite float.
func appendScalars(dst []byte, all map[string]any, comma bool) ([]byte, error) {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(appendName(dst, name), ':')
		switch v := all[name].(type) {
		case string:
			dst = appendName(dst, v)
		case bool:
			dst = strconv.AppendBool(dst, v)
		case int64:
			dst = strconv.AppendInt(dst, v, 10)
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return dst, edgewise.Errorf(opEncode, edgewise.Invalid, "parameter %q is %v, which JSON cannot carry", name, v)
			}
			dst = appendDouble(dst, v)
		default:
			return dst, edgewise.Errorf(opEncode, edgewise.Invalid,
				"parameter %q is a %T: want a string, int64, bool or float64", name, v)
		}
	}
	return dst, nil
}

// appendDouble appends a finite float so that it reads back as one and not as an integer.
func appendDouble(dst []byte, v float64) []byte {
	start := len(dst)
	dst = appendFloat(dst, v, 64)
	if !slices.ContainsFunc(dst[start:], func(ch byte) bool { return ch == '.' || ch == 'e' }) {
		dst = append(dst, ".0"...)
	}
	return dst
}
