package ensemble

import (
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// The words of a condition, as a configuration has them.
const (
	equal        = "EQUAL"
	notEqual     = "NOT_EQUAL"
	less         = "LESS"
	lessEqual    = "LESS_EQUAL"
	greater      = "GREATER"
	greaterEqual = "GREATER_EQUAL"

	overAny = "ANY"
	overAll = "ALL"

	skip = "SKIP"
	stop = "STOP"
)

// condition decides whether a step runs.
type condition struct {
	tensor   int
	operator string
	value    float64
	text     string
	all      bool
	stop     bool
}

// fallback is what stands for an output of a skipped step: another tensor, or a constant.
type fallback struct {
	tensor   int // noStep: the constant
	constant edgewise.Tensor
	there    bool // the configuration has one
}

func (g *graph) addCondition(s *step, declared *edgewise.EnsembleStep) {
	c := declared.Condition
	if c == nil {
		return
	}
	s.condition = &condition{
		tensor: g.tensor(c.Tensor), operator: c.Operator, value: c.Value, text: c.Text,
		all: c.Over == overAll, stop: c.Otherwise == stop,
	}
	s.waits = append(s.waits, s.condition.tensor)
	for _, out := range s.outputs {
		d, there := c.DefaultOutput[out.name]
		f := fallback{tensor: noStep, there: there}
		switch {
		case d.Tensor != "":
			f.tensor = g.tensor(d.Tensor)
			s.waits = append(s.waits, f.tensor)
		case there && s.model != nil && outputOf(s.model, out.name) != nil:
			f.constant, _ = filled(g.tensors[out.tensor].name, outputOf(s.model, out.name).DataType, d)
		}
		s.defaults = append(s.defaults, f)
	}
}

// holds compares the elements of t. Numbers are compared as 64-bit floating-point numbers: NaN is not equal to anything
// and neither less nor greater. Without elements ANY does not hold and ALL does.
func (c *condition) holds(t *edgewise.Tensor) bool {
	if t.Type == edgewise.Bytes {
		for element := range edgewise.Elements(t.Data) {
			if matches := (string(element) == c.text) == (c.operator == equal); matches != c.all {
				return matches
			}
		}
		return c.all
	}
	size := int(t.Type.Size())
	for at := 0; at+size <= len(t.Data); at += size {
		if matches := c.compare(scalar.Float(t.Type, t.Data[at:])); matches != c.all {
			return matches
		}
	}
	return c.all
}

func (c *condition) compare(x float64) bool {
	switch c.operator {
	case equal:
		return x == c.value
	case notEqual:
		return x != c.value
	case less:
		return x < c.value
	case lessEqual:
		return x <= c.value
	case greater:
		return x > c.value
	}
	return x >= c.value
}

// element returns x as an element of type t, which is not Bytes. ok is false when t cannot hold exactly x; for FP32 the
// nearest number will do.
func element(t edgewise.DataType, x float64) (data []byte, ok bool) {
	switch {
	case t.IsFloat():
		data = scalar.AppendFloat(nil, t, x)
		if t == edgewise.FP32 && !math.IsInf(scalar.Float(t, data), 0) || t == edgewise.FP64 {
			return data, true
		}
	case t == edgewise.Uint64:
		if x < 0 || x >= 1<<64 {
			return nil, false
		}
		data = scalar.AppendBits(nil, t, uint64(x))
	default:
		if !(x >= -1<<63 && x < 1<<63) || t == edgewise.Bool && x != 0 && x != 1 {
			return nil, false
		}
		data = scalar.AppendBits(nil, t, uint64(int64(x)))
	}
	return data, scalar.Float(t, data) == x
}

// filled makes a default output of type t.
func filled(name string, t edgewise.DataType, d edgewise.EnsembleDefault) (edgewise.Tensor, error) {
	out := edgewise.Tensor{Name: name, Type: t, Shape: d.Dims}
	n, ok := d.Dims.Elements()
	var one []byte
	if t == edgewise.Bytes {
		one = edgewise.AppendElement(nil, d.Text)
	} else {
		var exact bool
		if one, exact = element(t, d.Value); !exact {
			return out, fmt.Errorf("value %v is no %v", d.Value, t)
		}
	}
	if !ok || n > MaxDefaultBytes/int64(len(one)) {
		return out, fmt.Errorf("dims %v have a negative size or take more than %d bytes", d.Dims, MaxDefaultBytes)
	}
	out.Data = make([]byte, 0, n*int64(len(one)))
	for range n {
		out.Data = append(out.Data, one...)
	}
	return out, nil
}
