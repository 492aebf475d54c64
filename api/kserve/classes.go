package kserve

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// maxClasses bounds the elements of an output, for one element of the batch, that is answered as classes: all of them
// are sorted.
const maxClasses = 1_000_000

// Classes describes the classes of a model's outputs. The zero value is a model without batching and labels.
type Classes struct {
	Batched bool                         // the first dimension of the outputs is the batch
	Labels  func(output string) []string // by index; nil, or returning nil: no labels
}

// Apply returns resp with classes in place of the outputs of which the client of req wants them; resp itself when it
// wants none. resp stays the owner of the outputs. Errors: those of Top; Internal for an output that is not
// well-formed.
func (c Classes) Apply(req *Inference, resp *edgewise.Response) (*edgewise.Response, error) {
	shown := resp
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		if err := out.Check(); err != nil {
			return nil, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Internal, "%w", err))
		}
		k := req.Answer(out.Name).Classification
		if k == 0 {
			continue
		}
		top, err := c.Top(out, k)
		if err != nil {
			return nil, edgewise.About(resp.Model, err)
		}
		if shown == resp {
			shown = &edgewise.Response{ID: resp.ID, Model: resp.Model, Parameters: resp.Parameters}
			shown.Outputs = slices.Clone(resp.Outputs)
		}
		shown.Outputs[i] = top
	}
	return shown, nil
}

// Top returns, in place of t, the k highest elements of each element of the batch as text:
// "<value>:<index>" or "<value>:<index>:<label>". Elements of equal value are in the order of their indices, and NaN
// comes last. Errors: Invalid for type Bytes or Bool, TooLarge over maxClasses.
func (c Classes) Top(t *edgewise.Tensor, k int) (edgewise.Tensor, error) {
	if t.Type == edgewise.Bytes || t.Type == edgewise.Bool {
		return edgewise.Tensor{}, TensorErrorf(t.Name, "class result not available for output due to unsupported type '%v'",
			t.Type)
	}
	shape, rows := t.Shape, int64(1)
	out := edgewise.Tensor{Name: t.Name, Type: edgewise.Bytes}
	if c.Batched && len(shape) > 0 {
		rows, shape = shape[0], shape[1:]
		out.Shape = append(out.Shape, rows)
	}
	n, _ := shape.Elements()
	if n > maxClasses {
		return edgewise.Tensor{}, tooLarge(maxClasses, "classification output tensor too large: output '%s' has %d "+
			"classes, at most %d are allowed", t.Name, n, maxClasses)
	}
	k = min(k, int(n))
	out.Shape = append(out.Shape, int64(k))
	if n == 0 { // there may be as many rows without elements as an int64 counts
		return out, nil
	}
	var labels []string
	if c.Labels != nil {
		labels = c.Labels(t.Name)
	}
	r := ranking{typ: t.Type, keys: make([]uint64, n), order: make([]int, n)}
	width := n * t.Type.Size()
	for row := range rows {
		out.Data = r.append(out.Data, t.Data[row*width:(row+1)*width], k, labels)
	}
	return out, nil
}

// ranking sorts the elements of one row after the other.
type ranking struct {
	typ   edgewise.DataType
	keys  []uint64
	order []int
}

func (r *ranking) append(dst, row []byte, k int, labels []string) []byte {
	size := int(r.typ.Size())
	for i := range r.keys {
		r.keys[i], r.order[i] = sortKey(r.typ, row[i*size:]), i
	}
	slices.SortFunc(r.order, func(a, b int) int {
		switch {
		case r.keys[a] > r.keys[b]:
			return -1
		case r.keys[a] < r.keys[b]:
			return 1
		}
		return a - b
	})
	for _, i := range r.order[:k] {
		start := len(dst)
		dst = appendPlain(append(dst, 0, 0, 0, 0), r.typ, row[i*size:])
		dst = strconv.AppendInt(append(dst, ':'), int64(i), 10)
		if i < len(labels) && labels[i] != "" {
			dst = append(append(dst, ':'), labels[i]...)
		}
		binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	}
	return dst
}

// appendPlain appends the number at the start of data: integers as they are, floats with six digits after the point.
func appendPlain(dst []byte, typ edgewise.DataType, data []byte) []byte {
	if !typ.IsFloat() {
		return appendElement(dst, typ, data)
	}
	v := scalar.Float(typ, data)
	switch {
	case math.IsNaN(v):
		return append(dst, "nan"...)
	case math.IsInf(v, 1):
		return append(dst, "inf"...)
	case math.IsInf(v, -1):
		return append(dst, "-inf"...)
	}
	return strconv.AppendFloat(dst, v, 'f', 6, 64)
}

// sortKey returns a number that orders elements as their values do. It is 0 for NaN.
func sortKey(typ edgewise.DataType, data []byte) uint64 {
	const top = 1 << 63
	switch bits := scalar.Bits(typ, data); {
	case typ.IsSigned():
		return bits ^ top
	case !typ.IsFloat():
		return bits
	}
	v := scalar.Float(typ, data)
	bits := math.Float64bits(v + 0) // -0 becomes 0, which it is equal to
	switch {
	case math.IsNaN(v):
		return 0
	case bits&top != 0:
		return ^bits
	}
	return bits | top
}
