package work

import (
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

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
