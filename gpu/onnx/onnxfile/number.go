package onnxfile

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// Attribute is an attribute of a node: its numbers, its text, or a tensor with a type, a shape and few enough numbers.
type Attribute struct {
	Name   string
	Text   string    // of at most maxText bytes; longer ones are left out
	Type   string    // of a tensor
	Shape  []int64   // of a tensor
	Values []float64 // nil where there are more than Limits.Values
}

// maxText bounds the text of an attribute that is kept, in bytes.
const maxText = 256

// attributeValue keeps a number, numbers or a text of an attribute.
func (w *walker) attributeValue(f field, a *Attribute) (err error) {
	if w.Limits.Values == 0 {
		return nil
	}
	if f.number == 4 {
		if f.end-w.pos > maxText {
			return nil
		}
		b := make([]byte, f.end-w.pos)
		err = w.read(b, w.pos)
		a.Text = string(b)
		return err
	}
	if a.Values == nil {
		a.Values = []float64{}
	}
	return w.keepNumbers(f, &a.Values)
}

// keepNumbers adds the numbers of a field of floats or integers, unless they are too many.
func (w *walker) keepNumbers(f field, into *[]float64) error {
	size := f.end - w.pos
	room := int64(w.Limits.Values - len(*into))
	switch {
	case room <= 0:
		return nil
	case f.wire == wireVarint:
		*into = append(*into, float64(int64(f.value)))
	case f.wire == wireFixed32:
		*into = append(*into, float64(math.Float32frombits(uint32(f.value))))
	case f.wire == wireFixed64:
		*into = append(*into, math.Float64frombits(f.value))
	case f.number == 8: // the integers of an attribute, packed
		t := &tensor{values: *into}
		_, err := w.varints(f, w.visit(t, size))
		*into = t.values
		return err
	case size <= 4*room:
		b := make([]byte, size)
		if err := w.read(b, w.pos); err != nil {
			return err
		}
		for ; len(b) >= 4; b = b[4:] {
			*into = append(*into, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	}
	return nil
}

// visit returns what keeps the integers of a packed field of so many bytes; nil where they are too many.
func (w *walker) visit(t *tensor, size int64) func(v uint64) error {
	if w.Limits.Values == 0 || size > maxVarintBytes*int64(w.Limits.Values) {
		return nil
	}
	return func(v uint64) error {
		if len(t.values) < w.Limits.Values {
			t.values = append(t.values, float64(int64(v)))
		}
		return nil
	}
}

// keepRaw keeps the bytes of a tensor whose elements may be few enough.
func (w *walker) keepRaw(f field, t *tensor) error {
	if size := f.end - w.pos; w.Limits.Values > 0 && size <= 8*int64(w.Limits.Values) {
		t.kept = make([]byte, size)
		return w.read(t.kept, w.pos)
	}
	return nil
}

// numbers returns the elements of a tensor of floats or integers; nil unless all of them were kept.
func (t *tensor) numbers(elements int64) []float64 {
	if t.external || t.where.given {
		return nil
	}
	if t.raw > 0 && int64(len(t.kept)) == t.raw {
		return decode(t.element.host, t.kept)
	}
	switch t.element.host {
	case edgewise.FP32, edgewise.Int64, edgewise.Int32, edgewise.Bool:
		if t.values != nil && int64(len(t.values)) == elements {
			return t.values
		}
	}
	return nil
}

// decode reads elements of the types that say shapes, sizes and conditions.
func decode(t edgewise.DataType, b []byte) (list []float64) {
	for len(b) > 0 {
		switch {
		case t == edgewise.Int64 && len(b) >= 8:
			list, b = append(list, float64(int64(binary.LittleEndian.Uint64(b)))), b[8:]
		case t == edgewise.Int32 && len(b) >= 4:
			list, b = append(list, float64(int32(binary.LittleEndian.Uint32(b)))), b[4:]
		case t == edgewise.FP32 && len(b) >= 4:
			list, b = append(list, float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))), b[4:]
		case t == edgewise.Bool:
			list, b = append(list, float64(b[0])), b[1:]
		default:
			return nil
		}
	}
	return list
}
