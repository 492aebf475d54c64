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
