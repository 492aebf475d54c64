package work

import (
	"math"
	"slices"
)

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
