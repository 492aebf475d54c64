package work

import (
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// broadcasted is the rule of operators on elements: one operation for each that is made.
func broadcasted(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	for i := range c.in {
		other, known := c.shapeOf(i)
		if !known {
			if c.in[i] != nil {
				return false
			}
			continue
		}
		if c.Op != "PRelu" && c.Op != "DequantizeLinear" && c.Op != "QuantizeLinear" {
			if s, ok = broadcast(s, other); !ok {
				return false
			}
		}
	}
	if c.Op == "QuantizeLinear" {
		c.out[0].size = 1
	}
	if c.Op == "DequantizeLinear" {
		c.out[0].size = 4
	}
	c.set(0, s...)
	c.count(c.out[0].elements())
	c.fold(s)
	return true
}

// fold computes the numbers of small tensors of integers, which shapes and conditions are made of.
func (c *call) fold(s edgewise.Shape) {
	n := int(c.out[0].elements())
	if n < 1 || n > maxValues || len(c.in) == 0 {
		return
	}
	list := make([]float64, n)
	for i := range list {
		args := make([]float64, len(c.in))
		for j := range c.in {
			values := c.valuesOf(j)
			if values == nil || len(values) != 1 && len(values) != n {
				return
			}
			args[j] = values[i%len(values)]
		}
		v, ok := compute(c.Op, args)
		if !ok {
			return
		}
		list[i] = v
	}
	c.out[0].values = list
}

// compute applies an operator to numbers. ok is false for those that no shape is made with.
func compute(op string, x []float64) (v float64, ok bool) {
	truth := func(b bool) (float64, bool) {
		if b {
			return 1, true
		}
		return 0, true
	}
	if len(x) == 1 {
		switch op {
		case "Neg":
			return -x[0], true
		case "Not":
			return truth(x[0] == 0)
		case "Ceil":
			return math.Ceil(x[0]), true
		case "Floor":
			return math.Floor(x[0]), true
		case "Sqrt":
			return math.Sqrt(x[0]), true
		}
		return 0, false
	}
	if op == "Where" && len(x) == 3 {
		if x[0] != 0 {
			return x[1], true
		}
		return x[2], true
	}
	if len(x) != 2 {
		return 0, false
	}
	switch op {
	case "Add":
		return x[0] + x[1], true
	case "Sub":
		return x[0] - x[1], true
	case "Mul":
		return x[0] * x[1], true
	case "Div":
		if x[1] == 0 {
			return 0, false
		}
		if x[0] == math.Trunc(x[0]) && x[1] == math.Trunc(x[1]) { // integers, as in shapes
			return math.Trunc(x[0] / x[1]), true
		}
		return x[0] / x[1], true
	case "Max":
		return max(x[0], x[1]), true
	case "Min":
		return min(x[0], x[1]), true
	case "Equal":
		return truth(x[0] == x[1])
	case "Greater":
		return truth(x[0] > x[1])
	case "GreaterOrEqual":
		return truth(x[0] >= x[1])
	case "Less":
		return truth(x[0] < x[1])
	case "LessOrEqual":
		return truth(x[0] <= x[1])
	case "And":
		return truth(x[0] != 0 && x[1] != 0)
	case "Or":
		return truth(x[0] != 0 || x[1] != 0)
	}
	return 0, false
}

// like is the rule of operators that make as many elements as an input has, with so many operations each.
func like(input int, operations float64) rule {
	return func(c *call) bool {
		s, ok := c.shapeOf(input)
		if !ok {
			return false
		}
		c.set(0, s...)
		c.count(operations * c.out[0].elements())
		return true
	}
}

// same is the rule of operators that pass their input on.
func same(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	c.out[0].values = c.in[0].values
	return c.set(0, s...)
}

// cast is that of Cast.
func cast(c *call) bool {
	if sizes := map[int64]int64{1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}; true {
		if size := sizes[c.integer("to", 0)]; size > 0 {
			c.out[0].size = size
		}
	}
	ok := same(c)
	c.count(c.out[0].elements())
	return ok
}

// reduced is that of the operators whose names begin with Reduce.
func reduced(c *call) bool {
	s, ok := c.shapeOf(0)
	axes, known := c.list("axes", 1)
	if !ok || !known {
		return false
	}
	c.count(c.in[0].elements())
	if len(axes) == 0 {
		if c.integer("noop_with_empty_axes", 0) == 1 {
			return c.set(0, s...)
		}
		for i := range s {
			axes = append(axes, int64(i))
		}
	}
	out, ok := without(s, axes, c.integer("keepdims", 1) == 1)
	if ok && len(c.valuesOf(0)) > 0 && c.Op == "ReduceProd" && len(out) <= 1 {
		product := 1.0
		for _, v := range c.valuesOf(0) {
			product *= v
		}
		c.keep([]float64{product})
	}
	return ok && c.set(0, out...)
}

// without is a shape without some of its dimensions, or with 1 in their place.
func without(s edgewise.Shape, axes []int64, keep bool) (out edgewise.Shape, ok bool) {
	gone := make([]bool, len(s))
	for _, a := range axes {
		axis, ok := axisOf(a, len(s))
		if !ok {
			return nil, false
		}
		gone[axis] = true
	}
	out = edgewise.Shape{}
	for i, d := range s {
		switch {
		case !gone[i]:
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	return out, true
}

// argument is that of ArgMax and ArgMin.
func argument(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	c.count(c.in[0].elements())
	c.out[0].size = 8
	out, ok := without(s, []int64{c.integer("axis", 0)}, c.integer("keepdims", 1) == 1)
	return ok && c.set(0, out...)
}

// topK is that of TopK.
func topK(c *call) bool {
	s, ok := c.shapeOf(0)
	k, known := c.list("k", 1)
	axis, exists := axisOf(c.integer("axis", -1), len(s))
	if !ok || !known || !exists || len(k) != 1 {
		return false
	}
	c.count(c.in[0].elements())
	out := slices.Clone(s)
	out[axis] = k[0]
	return c.set(0, out...) && c.set(1, out...)
}

// condition is the rule of If: the branch that is taken, or the one with more operations.
func condition(c *call) bool {
	if len(c.Graphs) != 2 {
		return false
	}
	branches := c.branches()
	if v := c.valuesOf(0); len(v) == 1 {
		at := branches[1]
		if v[0] != 0 {
			at = branches[0]
		}
		c.take(at)
		return true
	}
	before, most, best := *c.work, -1.0, 0
	for i, at := range branches {
		trial := *c.work
		trial.Unknown = map[string]int{}
		held := c.work
		c.evaluation.work = &trial
		c.take(at)
		c.evaluation.work = held
		if done := trial.Operations - before.Operations; done > most {
			most, best = done, i
		}
	}
	c.take(branches[best])
	c.work.Assumed++
	return true
}

// branches are the places of the graphs for true and false, which stand in the order of the file.
func (c *call) branches() [2]int {
	if len(c.GraphNames) == 2 && c.GraphNames[0] == "else_branch" {
		return [2]int{1, 0}
	}
	return [2]int{0, 1}
}

// take counts a graph of the node, and gives the outputs of the node what it makes.
func (c *call) take(at int) {
	g := c.Graphs[at]
	inner := &scope{outer: c.scope, values: map[string]*value{}}
	c.graph(g, inner)
	for i, name := range g.Outputs {
		if v := inner.find(name); v != nil && i < len(c.out) {
			c.out[i] = v
		}
	}
}
