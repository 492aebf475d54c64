package work

import (
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

func shape(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	begin, end := bounds(c.integer("start", 0), c.integer("end", math.MaxInt32), len(s))
	list := []float64{}
	for _, d := range s[begin:max(end, begin)] {
		list = append(list, float64(d))
	}
	c.out[0].size = 8
	c.keep(list)
	return c.set(0, int64(len(list)))
}

// bounds are those of a part of n elements, counted from the front.
func bounds(begin, end int64, n int) (int, int) {
	fix := func(v int64) int {
		if v < 0 {
			v += int64(n)
		}
		return int(min(max(v, 0), int64(n)))
	}
	return fix(begin), fix(end)
}

func size(c *call) bool {
	if _, ok := c.shapeOf(0); !ok {
		return false
	}
	c.out[0].size = 8
	c.keep([]float64{c.in[0].elements()})
	return c.set(0)
}

func gather(c *call) bool {
	s, ok := c.shapeOf(0)
	indices, known := c.shapeOf(1)
	axis, exists := axisOf(c.integer("axis", 0), len(s))
	if !ok || !known || !exists {
		return false
	}
	out := slices.Concat(s[:axis], indices, s[axis+1:])
	if from, at := c.valuesOf(0), c.valuesOf(1); from != nil && at != nil && len(s) == 1 {
		list := []float64{}
		for _, i := range at {
			if n, ok := axisOf(int64(i), len(from)); ok {
				list = append(list, from[n])
			}
		}
		if len(list) == len(at) {
			c.keep(list)
		}
	}
	return c.set(0, out...)
}

func slice(c *call) bool {
	s, ok := c.shapeOf(0)
	starts, a := c.list("starts", 1)
	ends, b := c.list("ends", 2)
	axes, d := c.list("axes", 3)
	steps, e := c.list("steps", 4)
	if !ok || !a || !b || !d || !e || len(ends) != len(starts) {
		return false
	}
	out, first, stride := slices.Clone(s), make([]int64, len(s)), slices.Repeat([]int64{1}, len(s))
	for i := range starts {
		axis, step := int64(i), int64(1)
		if i < len(axes) {
			axis = axes[i]
		}
		if i < len(steps) {
			step = steps[i]
		}
		at, exists := axisOf(axis, len(s))
		if !exists || step == 0 {
			return false
		}
		first[at], out[at] = sliced(s[at], starts[i], ends[i], step)
		stride[at] = step
	}
	c.pick(out, func(axis int, place int64) (int, int64) { return axis, first[axis] + place*stride[axis] })
	return c.set(0, out...)
}

// pick gives the output, of a shape, the numbers of the input: from says where along which axis of the input a place along
// an axis of the output is.
func (c *call) pick(out edgewise.Shape, from func(axis int, place int64) (int, int64)) {
	values, n := c.valuesOf(0), (&value{shape: out, known: true}).elements()
	if values == nil || n > maxValues {
		return
	}
	s, list := c.in[0].shape, make([]float64, 0, int(n))
	for i := range int64(n) {
		places, left := make([]int64, len(s)), i
		for axis := len(out) - 1; axis >= 0; axis-- {
			at, place := from(axis, left%out[axis])
			places[at], left = place, left/out[axis]
		}
		index := int64(0)
		for axis, place := range places {
			index = index*s[axis] + place
		}
		if index < 0 || index >= int64(len(values)) {
			return
		}
		list = append(list, values[index])
	}
	c.keep(list)
}

// sliced is the first of the elements between two of n, in steps, and how many there are.
func sliced(n, start, end, step int64) (first, count int64) {
	if start < 0 {
		start += n
	}
	if end < 0 && end >= -n {
		end += n
	}
	if step > 0 {
		start, end = min(max(start, 0), n), min(max(end, 0), n)
		return start, max((end-start+step-1)/step, 0)
	}
	start, end = min(max(start, 0), n-1), min(max(end, -1), n-1)
	return start, max((start-end-step-1)/-step, 0)
}

func concat(c *call) bool {
	s, ok := c.shapeOf(0)
	axis, exists := axisOf(c.integer("axis", 0), len(s))
	if !ok || !exists {
		return false
	}
	out, list := slices.Clone(s), c.valuesOf(0)
	for i := range c.in[1:] {
		other, ok := c.shapeOf(i + 1)
		if !ok || len(other) != len(s) {
			return false
		}
		out[axis] += other[axis]
		if values := c.valuesOf(i + 1); list == nil || values == nil {
			list = nil
		} else {
			list = slices.Concat(list, values)
		}
	}
	if list != nil && len(s) == 1 {
		c.keep(list)
	}
	return c.set(0, out...)
}

func split(c *call) bool {
	s, ok := c.shapeOf(0)
	sizes, known := c.list("split", 1)
	axis, exists := axisOf(c.integer("axis", 0), len(s))
	if !ok || !known || !exists {
		return false
	}
	each := (s[axis] + int64(len(c.out)) - 1) / int64(len(c.out))
	left := s[axis]
	for i := range c.out {
		out := slices.Clone(s)
		out[axis] = min(each, left)
		if i < len(sizes) {
			out[axis] = sizes[i]
		}
		left -= out[axis]
		if !c.set(i, out...) {
			return false
		}
	}
	return true
}

func reshape(c *call) bool {
	s, ok := c.shapeOf(0)
	want, known := c.list("shape", 1)
	if !ok || !known {
		return false
	}
	out, open, n := slices.Clone(want), -1, 1.0
	for i, d := range out {
		switch {
		case d == 0 && c.integer("allowzero", 0) == 0 && i < len(s):
			out[i] = s[i]
		case d == -1:
			open = i
			continue
		}
		n *= float64(out[i])
	}
	if open >= 0 {
		if n == 0 {
			return false
		}
		out[open] = int64(c.in[0].elements() / n)
	}
	c.out[0].values = c.in[0].values
	return c.set(0, out...)
}

func flatten(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	axis := c.integer("axis", 1)
	if axis < 0 {
		axis += int64(len(s))
	}
	if axis < 0 || axis > int64(len(s)) {
		return false
	}
	rows, _ := s[:axis].Elements()
	columns, _ := s[axis:].Elements()
	return c.set(0, rows, columns)
}

func squeeze(c *call) bool {
	s, ok := c.shapeOf(0)
	axes, known := c.list("axes", 1)
	if !ok || !known {
		return false
	}
	if axes == nil {
		for i, d := range s {
			if d == 1 {
				axes = append(axes, int64(i))
			}
		}
	}
	out, ok := without(s, axes, false)
	c.out[0].values = c.in[0].values
	return ok && c.set(0, out...)
}

func unsqueeze(c *call) bool {
	s, ok := c.shapeOf(0)
	axes, known := c.list("axes", 1)
	if !ok || !known {
		return false
	}
	rank := len(s) + len(axes)
	fresh := make([]bool, rank)
	for _, a := range axes {
		axis, ok := axisOf(a, rank)
		if !ok || fresh[axis] {
			return false
		}
		fresh[axis] = true
	}
	out, next := make(edgewise.Shape, rank), 0
	for i := range out {
		if out[i] = 1; !fresh[i] {
			out[i] = s[next]
			next++
		}
	}
	c.out[0].values = c.in[0].values
	return c.set(0, out...)
}

func transpose(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	order := c.integers("perm")
	out, axes := make(edgewise.Shape, len(s)), make([]int, len(s))
	for i := range out {
		from := int64(len(s) - 1 - i)
		if order != nil {
			if len(order) != len(s) {
				return false
			}
			from = order[i]
		}
		at, exists := axisOf(from, len(s))
		if !exists {
			return false
		}
		out[i], axes[i] = s[at], at
	}
	c.pick(out, func(axis int, place int64) (int, int64) { return axes[axis], place })
	return c.set(0, out...)
}

func expand(c *call) bool {
	s, ok := c.shapeOf(0)
	want, known := c.list("", 1)
	if !ok || !known {
		return false
	}
	out, ok := broadcast(s, want)
	return ok && c.set(0, out...)
}

func tile(c *call) bool {
	s, ok := c.shapeOf(0)
	times, known := c.list("", 1)
	if !ok || !known || len(times) != len(s) {
		return false
	}
	out := slices.Clone(s)
	for i := range out {
		out[i] *= times[i]
	}
	return c.set(0, out...)
}

func pad(c *call) bool {
	s, ok := c.shapeOf(0)
	pads, known := c.list("pads", 1)
	if !ok || !known {
		return false
	}
	axes, known := c.list("axes", 3)
	if !known {
		return false
	}
	if axes == nil {
		for i := range s {
			axes = append(axes, int64(i))
		}
	}
	if len(pads) != 2*len(axes) {
		return false
	}
	out := slices.Clone(s)
	for i, a := range axes {
		axis, exists := axisOf(a, len(s))
		if !exists {
			return false
		}
		out[axis] += pads[i] + pads[len(axes)+i]
	}
	return c.set(0, out...)
}

// resize is that of Resize and Upsample.
func resize(c *call) bool {
	s, ok := c.shapeOf(0)
	if !ok {
		return false
	}
	scales, sizes := c.valuesOf(1), []float64(nil)
	if c.Op == "Resize" {
		if scales = c.valuesOf(2); len(c.in) == 2 { // the first version of Resize
			scales = c.valuesOf(1)
		}
		sizes = c.valuesOf(3)
	} else if a := c.attribute("scales"); a != nil {
		scales = a.Values
	}
	out := slices.Clone(s)
	switch {
	case len(sizes) == len(s):
		copy(out, rounded(sizes))
	case len(scales) == len(s):
		for i := range out {
			out[i] = int64(math.Floor(float64(out[i]) * scales[i]))
		}
	default:
		return false
	}
	c.set(0, out...)
	c.count(c.out[0].elements())
	return true
}

func constant(c *call) bool {
	c.out[0].constant = true
	for _, a := range c.Attributes {
		switch {
		case a.Type != "":
			c.out[0].values = a.Values
			c.out[0].size = map[string]int64{"int64": 8, "double": 8, "float16": 2, "bool": 1, "uint8": 1, "int8": 1}[a.Type]
			c.out[0].size = max(c.out[0].size, 4)
			return c.set(0, a.Shape...)
		case len(a.Values) == 1 && (a.Name == "value_int" || a.Name == "value_float"):
			c.keep(a.Values)
			return c.set(0)
		case a.Name == "value_ints" || a.Name == "value_floats":
			c.keep(a.Values)
			return c.set(0, int64(len(a.Values)))
		}
	}
	return false
}

func constantOfShape(c *call) bool {
	want, known := c.list("", 0)
	if !known {
		return false
	}
	c.out[0].size = 4
	fill := 0.0
	if a := c.attribute("value"); a != nil && len(a.Values) == 1 {
		fill = a.Values[0]
		if a.Type == "int64" {
			c.out[0].size = 8
		}
	}
	if !c.set(0, want...) {
		return false
	}
	if n := c.out[0].elements(); n <= maxValues {
		c.keep(slices.Repeat([]float64{fill}, int(n)))
	}
	return true
}

// span is that of Range.
func span(c *call) bool {
	begin, end, step := c.valuesOf(0), c.valuesOf(1), c.valuesOf(2)
	if len(begin) != 1 || len(end) != 1 || len(step) != 1 || step[0] == 0 {
		return false
	}
	n := max(int64(math.Ceil((end[0]-begin[0])/step[0])), 0)
	if n <= maxValues {
		list := make([]float64, n)
		for i := range list {
			list[i] = begin[0] + float64(i)*step[0]
		}
		c.keep(list)
	}
	return c.set(0, n)
}

func depthToSpace(c *call) bool {
	s, ok := c.shapeOf(0)
	b := c.integer("blocksize", 0)
	if !ok || len(s) != 4 || b < 1 {
		return false
	}
	return c.set(0, s[0], s[1]/(b*b), s[2]*b, s[3]*b)
}

func spaceToDepth(c *call) bool {
	s, ok := c.shapeOf(0)
	b := c.integer("blocksize", 0)
	if !ok || len(s) != 4 || b < 1 {
		return false
	}
	return c.set(0, s[0], s[1]*b*b, s[2]/b, s[3]/b)
}
