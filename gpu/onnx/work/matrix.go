package work

import (
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// integers is the rule of an operator on integers of 8 bits.
func integers(of rule) rule {
	return func(c *call) bool {
		before := c.work.Operations
		ok := of(c)
		c.work.Integer += c.work.Operations - before
		return ok
	}
}

// window is the size of an output of a convolution or a pool along its axes.
func (c *call) window(s, kernel []int64) (out []int64, ok bool) {
	n := len(kernel)
	if len(s) != n {
		return nil, false
	}
	strides, pads, dilations := c.integers("strides"), c.integers("pads"), c.integers("dilations")
	at := func(list []int64, i int, otherwise int64) int64 {
		if i < len(list) {
			return list[i]
		}
		return otherwise
	}
	for i := range n {
		stride, covered := max(at(strides, i, 1), 1), at(dilations, i, 1)*(kernel[i]-1)+1
		var size int64
		switch c.text("auto_pad", "NOTSET") {
		case "SAME_UPPER", "SAME_LOWER":
			size = (s[i] + stride - 1) / stride
		case "VALID":
			size = (s[i]-covered)/stride + 1
		default:
			room := s[i] + at(pads, i, 0) + at(pads, n+i, 0) - covered
			if c.integer("ceil_mode", 0) == 1 {
				room += stride - 1
			}
			size = room/stride + 1
		}
		if size < 1 {
			return nil, false
		}
		out = append(out, size)
	}
	return out, true
}

func conv(c *call) bool       { return c.convolution(0, 1, 2) }
func linearConv(c *call) bool { return c.convolution(0, 3, 8) }

// convolution counts one, also a grouped or depthwise one, with its input, weights and bias.
func (c *call) convolution(input, weights, bias int) bool {
	x, ok := c.shapeOf(input)
	w, known := c.shapeOf(weights)
	if !ok || !known || len(x) < 3 || len(w) != len(x) {
		return false
	}
	spatial, ok := c.window(x[2:], w[2:])
	if !ok {
		return false
	}
	c.set(0, slices.Concat([]int64{x[0], w[0]}, spatial)...)
	each := 2 * (&value{shape: w[1:], known: true}).elements()
	if bias < len(c.in) && c.in[bias] != nil {
		each++
	}
	c.count(c.out[0].elements() * each)
	return true
}

// transposed is the rule of ConvTranspose.
func transposed(c *call) bool {
	x, ok := c.shapeOf(0)
	w, known := c.shapeOf(1)
	if !ok || !known || len(x) < 3 || len(w) != len(x) {
		return false
	}
	group, n := c.integer("group", 1), len(x)-2
	strides, pads, dilations := c.integers("strides"), c.integers("pads"), c.integers("dilations")
	extra, fixed := c.integers("output_padding"), c.integers("output_shape")
	out := []int64{x[0], w[1] * group}
	at := func(list []int64, i int, otherwise int64) int64 {
		if i < len(list) {
			return list[i]
		}
		return otherwise
	}
	for i := range n {
		stride := at(strides, i, 1)
		size := stride*(x[2+i]-1) + at(extra, i, 0) + at(dilations, i, 1)*(w[2+i]-1) + 1 - at(pads, i, 0) - at(pads, n+i, 0)
		if strings.HasPrefix(c.text("auto_pad", ""), "SAME") {
			size = x[2+i] * stride
		}
		if len(fixed) >= n {
			size = fixed[len(fixed)-n+i]
		}
		out = append(out, size)
	}
	if !c.set(0, out...) {
		return false
	}
	c.count(2 * c.in[0].elements() * (&value{shape: w[1:], known: true}).elements())
	return true
}

func matMul(c *call) bool       { return c.product(0, 1) }
func linearMatMul(c *call) bool { return c.product(0, 3) }

// product counts a product of matrices, with what stands before them broadcast.
func (c *call) product(left, right int) bool {
	a, ok := c.shapeOf(left)
	b, known := c.shapeOf(right)
	if !ok || !known || len(a) == 0 || len(b) == 0 {
		return false
	}
	vectorA, vectorB := len(a) == 1, len(b) == 1
	if vectorA {
		a = edgewise.Shape{1, a[0]}
	}
	if vectorB {
		b = edgewise.Shape{b[0], 1}
	}
	a, b = turned(a, c.integer("transA", 0) == 1), turned(b, c.integer("transB", 0) == 1)
	inner := a[len(a)-1]
	if b[len(b)-2] != inner {
		return false
	}
	out, ok := broadcast(a[:len(a)-2], b[:len(b)-2])
	if !ok {
		return false
	}
	if !vectorA {
		out = append(out, a[len(a)-2])
	}
	if !vectorB {
		out = append(out, b[len(b)-1])
	}
	if !c.set(0, out...) {
		return false
	}
	if strings.HasSuffix(c.Op, "Integer") || c.Op == "DynamicQuantizeMatMul" {
		c.out[0].size = 4
	}
	c.count(2 * float64(inner) * c.out[0].elements())
	return true
}

// turned is the shape of matrices, transposed or not.
func turned(s edgewise.Shape, transpose bool) edgewise.Shape {
	s = slices.Clone(s)
	if n := len(s); transpose {
		s[n-1], s[n-2] = s[n-2], s[n-1]
	}
	return s
}

func gemm(c *call) bool {
	if !c.product(0, 1) {
		return false
	}
	if len(c.in) > 2 && c.in[2] != nil {
		c.count(2 * c.out[0].elements())
	}
	return true
}

// recurrent is the rule of operators with so many gates.
func recurrent(gates float64) rule {
	return func(c *call) bool {
		x, ok := c.shapeOf(0)
		r, known := c.shapeOf(2)
		if !ok || !known || len(x) != 3 || len(r) != 3 {
			return false
		}
		steps, rows, width, directions, hidden := x[0], x[1], x[2], r[0], r[2]
		if c.integer("layout", 0) == 1 {
			steps, rows = rows, steps
		}
		each := gates * float64(hidden) * (2*float64(width+hidden) + 8)
		c.count(float64(steps) * float64(rows) * float64(directions) * each)
		if c.integer("layout", 0) == 1 {
			return c.set(0, rows, steps, directions, hidden) && c.set(1, rows, directions, hidden) && c.set(2, rows, directions, hidden)
		}
		return c.set(0, steps, directions, rows, hidden) && c.set(1, directions, rows, hidden) && c.set(2, directions, rows, hidden)
	}
}

// attention is that of the fused operator: the projections of one input, and the products of all heads.
func attention(c *call) bool {
	x, ok := c.shapeOf(0)
	w, known := c.shapeOf(1)
	if !ok || !known || len(x) != 3 || len(w) != 2 || c.Domain != "com.microsoft" {
		return false
	}
	rows, length, width := float64(x[0]), float64(x[1]), float64(w[1])/3
	c.count(2*rows*length*float64(w[0])*float64(w[1]) + 4*rows*length*length*width)
	return c.set(0, x[0], x[1], w[1]/3)
}

// multiHeadAttention is that of the products of all heads, of queries, keys and values with three dimensions.
func multiHeadAttention(c *call) bool {
	q, ok := c.shapeOf(0)
	k, known := c.shapeOf(1)
	v, also := c.shapeOf(2)
	if !ok || !known || !also || len(q) != 3 || len(k) != 3 || len(v) != 3 {
		return false
	}
	c.count(2 * float64(q[0]) * float64(q[1]) * float64(k[1]) * float64(q[2]+v[2]))
	return c.set(0, q[0], q[1], v[2])
}

// einsum counts a sum over all indices of its equation: two operations for each combination of them.
func einsum(c *call) bool {
	left, right, ok := strings.Cut(strings.ReplaceAll(c.text("equation", ""), " ", ""), "->")
	terms := strings.Split(left, ",")
	if !ok || len(terms) != len(c.in) || strings.Contains(left, ".") {
		return false
	}
	sizes := map[rune]int64{}
	for i, term := range terms {
		s, known := c.shapeOf(i)
		if !known || len(s) != len(term) {
			return false
		}
		for j, index := range term {
			sizes[index] = max(sizes[index], s[j])
		}
	}
	all := 2.0
	for _, size := range sizes {
		all *= float64(size)
	}
	out := []int64{}
	for _, index := range right {
		out = append(out, sizes[index])
	}
	c.count(all)
	return c.set(0, out...)
}

func pool(c *call) bool {
	x, ok := c.shapeOf(0)
	kernel := c.integers("kernel_shape")
	if !ok || len(x) < 3 {
		return false
	}
	spatial, ok := c.window(x[2:], kernel)
	if !ok {
		return false
	}
	c.set(0, slices.Concat(x[:2], spatial)...)
	c.count(c.out[0].elements() * (&value{shape: kernel, known: true}).elements())
	return true
}

func globalPool(c *call) bool {
	x, ok := c.shapeOf(0)
	if !ok || len(x) < 3 {
		return false
	}
	out := slices.Clone(x)
	for i := range out[2:] {
		out[2+i] = 1
	}
	c.count(c.in[0].elements())
	return c.set(0, out...)
}
