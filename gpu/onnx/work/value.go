package work

import (
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
)

// value is what is known of a tensor.
type value struct {
	shape    edgewise.Shape
	known    bool      // the shape
	values   []float64 // of a small tensor; nil: not known
	size     int64     // bytes of an element
	constant bool      // it does not depend on the request
	made     bool      // a node has made it
}

// elements is how many elements the tensor has, 0 when that is not known.
func (v *value) elements() float64 {
	if v == nil || !v.known {
		return 0
	}
	n := 1.0
	for _, d := range v.shape {
		n *= float64(d)
	}
	return n
}

func (v *value) bytes() int64 { return int64(v.elements()) * v.sizeOf() }

func (v *value) sizeOf() int64 {
	if v == nil {
		return 0
	}
	return v.size
}

// call is a node whose work is counted.
type call struct {
	*evaluation
	*onnxfile.Node
	scope    *scope
	in, out  []*value
	constant bool
}

// inherited is the bytes of an element of the first input.
func (c *call) inherited() int64 {
	for _, v := range c.in {
		if v != nil {
			return v.size
		}
	}
	return 4
}

// shapeOf is the shape of an input. ok is false when it is not known.
func (c *call) shapeOf(i int) (s edgewise.Shape, ok bool) {
	if i >= len(c.in) || c.in[i] == nil || !c.in[i].known {
		return nil, false
	}
	return c.in[i].shape, true
}

// valuesOf is the numbers of an input; nil when they are not known.
func (c *call) valuesOf(i int) []float64 {
	if i >= len(c.in) || c.in[i] == nil {
		return nil
	}
	return c.in[i].values
}

// set gives an output a shape, and tells that it is known. A shape with a dimension below 0 is not.
func (c *call) set(i int, shape ...int64) bool {
	if i >= len(c.out) {
		return true
	}
	for _, d := range shape {
		if d < 0 {
			return false
		}
	}
	if _, ok := edgewise.Shape(shape).Elements(); !ok {
		return false
	}
	c.out[i].shape, c.out[i].known = slices.Clone(shape), true
	return true
}

// keep gives an output numbers, with the shape of a list, unless there are too many.
func (c *call) keep(values []float64) {
	if len(values) <= maxValues {
		c.out[0].values = values
	}
}

// count adds operations.
func (c *call) count(operations float64) { c.work.Operations += operations }

// attribute finds an attribute; nil when there is none.
func (c *call) attribute(name string) *onnxfile.Attribute {
	for i := range c.Attributes {
		if c.Attributes[i].Name == name {
			return &c.Attributes[i]
		}
	}
	return nil
}

// integer is an attribute of one integer.
func (c *call) integer(name string, otherwise int64) int64 {
	if a := c.attribute(name); a != nil && len(a.Values) == 1 {
		return int64(a.Values[0])
	}
	return otherwise
}

// integers are the integers of an attribute, nil when there is none.
func (c *call) integers(name string) []int64 {
	if a := c.attribute(name); a != nil {
		return rounded(a.Values)
	}
	return nil
}

// text is an attribute of text.
func (c *call) text(name, otherwise string) string {
	if a := c.attribute(name); a != nil && a.Text != "" {
		return a.Text
	}
	return otherwise
}

// list is an attribute or, in later operator sets, an input of integers. ok is false when there is an input whose numbers
// are not known.
func (c *call) list(name string, input int) (list []int64, ok bool) {
	if list := c.integers(name); list != nil {
		return list, true
	}
	if input >= len(c.in) || c.in[input] == nil {
		return nil, input >= len(c.Inputs) || c.Inputs[input] == ""
	}
	values := c.in[input].values
	return rounded(values), values != nil
}

func rounded(values []float64) []int64 {
	if values == nil {
		return nil
	}
	list := make([]int64, len(values))
	for i, v := range values {
		list[i] = int64(max(min(v, math.MaxInt32), math.MinInt32)) // larger ones stand for "to the end"
	}
	return list
}

// broadcast is the shape of what is made of tensors of these shapes.
func broadcast(a, b edgewise.Shape) (edgewise.Shape, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	s := slices.Clone(a)
	for i, d := range b {
		at := len(a) - len(b) + i
		switch {
		case s[at] == d || d == 1:
		case s[at] == 1:
			s[at] = d
		default:
			return nil, false
		}
	}
	return s, true
}

// axisOf counts an axis from the front. ok is false for one that does not exist.
func axisOf(axis int64, rank int) (int, bool) {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), axis >= 0 && axis < int64(rank)
}
