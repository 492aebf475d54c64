package differential

import "github.com/edgewise-ai/edgewise/test/onnxgen"

// operators take a matrix of FP32 and make a value of it.
var operators = []func(g *generator, x value) value{
	simple("Neg"), simple("Relu"), simple("Sigmoid"), simple("Tanh"), simple("Abs"), simple("Identity"), simple("Sign"),
	func(g *generator, x value) value {
		return g.same("Mul", x, g.constant(onnxgen.Floats("", nil, 1.5)))
	},
	func(g *generator, x value) value { return g.along("Softmax", x, 1) },
	func(g *generator, x value) value { g.rows = false; return g.along("Softmax", x, 0) },
	func(g *generator, x value) value {
		return g.same("CumSum", x, g.constant(onnxgen.Ints64("", nil, 1)))
	},
	func(g *generator, x value) value {
		g.rows = false
		return g.same("CumSum", x, g.constant(onnxgen.Ints64("", nil, 0)))
	},
	reduced("ReduceMean"), reduced("ReduceMax"), reduced("ReduceMin"),
	func(g *generator, x value) value { // a number of each row
		return g.node("ReduceMean", []string{x.name}, x.kind, []onnxgen.Dim{x.dims[0], {Size: 1}}, onnxgen.IntsAttribute("axes", 1))
	},
	func(g *generator, x value) value { // weights
		k, m := x.dims[1].Size, 1+g.random.Int64N(40)
		if k < 0 {
			return g.same("Neg", x)
		}
		weights := make([]float32, k*m)
		for i := range weights {
			weights[i] = float32(g.random.IntN(9)-4) / 4
		}
		return g.node("MatMul", []string{x.name, g.constant(onnxgen.Floats("", []int64{k, m}, weights...))}, x.kind,
			[]onnxgen.Dim{x.dims[0], {Size: m}})
	},
	func(g *generator, x value) value { // rows the other way round
		g.rows = false
		one := func(v int64) string { return g.constant(onnxgen.Ints64("", []int64{1}, v)) }
		return g.same("Slice", x, one(-1), one(-1<<40), one(0), one(-1))
	},
	func(g *generator, x value) value { // without the first row
		g.rows = false
		first := g.node("Gather", []string{x.name, g.constant(onnxgen.Ints64("", []int64{1}, 0))}, x.kind, []onnxgen.Dim{{Size: 1}, x.dims[1]})
		return g.same("Sub", x, first.name)
	},
	func(g *generator, x value) value { // by the number of rows
		g.rows = false
		shape := g.node("Shape", []string{x.name}, onnxgen.Int64, onnxgen.Dims(2))
		rows := g.node("Gather", []string{shape.name, g.constant(onnxgen.Ints64("", nil, 0))}, onnxgen.Int64, nil)
		number := g.node("Cast", []string{rows.name}, onnxgen.Float, nil, onnxgen.IntAttribute("to", int64(onnxgen.Float)))
		return g.same("Mul", x, number.name)
	},
	func(g *generator, x value) value { // over columns of the transposed
		g.rows = false
		turned := g.node("Transpose", []string{x.name}, x.kind, []onnxgen.Dim{x.dims[1], x.dims[0]}, onnxgen.IntsAttribute("perm", 1, 0))
		soft := g.along("Softmax", turned, 1)
		return g.node("Transpose", []string{soft.name}, x.kind, x.dims, onnxgen.IntsAttribute("perm", 1, 0))
	},
	func(g *generator, x value) value { // transposed
		g.rows = false
		return g.node("Transpose", []string{x.name}, x.kind, []onnxgen.Dim{x.dims[1], x.dims[0]}, onnxgen.IntsAttribute("perm", 1, 0))
	},
	func(g *generator, x value) value { // twice as many rows
		g.rows = false
		return g.node("Concat", []string{x.name, x.name}, x.kind, []onnxgen.Dim{{Size: -1}, x.dims[1]}, onnxgen.IntAttribute("axis", 0))
	},
	func(g *generator, x value) value { // twice as many columns
		width := onnxgen.Dim{Size: -1}
		if x.dims[1].Size > 0 {
			width.Size = 2 * x.dims[1].Size
		}
		return g.node("Concat", []string{x.name, x.name}, x.kind, []onnxgen.Dim{x.dims[0], width}, onnxgen.IntAttribute("axis", 1))
	},
	func(g *generator, x value) value { // which is the largest of a row
		return g.node("ArgMax", []string{x.name}, onnxgen.Int64, x.dims[:1], onnxgen.IntAttribute("axis", 1), onnxgen.IntAttribute("keepdims", 0))
	},
	func(g *generator, x value) value { // which row is the largest
		g.rows = false
		return g.node("ArgMax", []string{x.name}, onnxgen.Int64, []onnxgen.Dim{{Size: 1}, x.dims[1]}, onnxgen.IntAttribute("axis", 0))
	},
	func(g *generator, x value) value { // as many as there are
		g.rows = false
		return g.node("NonZero", []string{x.name}, onnxgen.Int64, []onnxgen.Dim{{Size: 2}, {Size: -1}})
	},
	cast(onnxgen.Int32), cast(onnxgen.Int64), cast(onnxgen.Double), cast(onnxgen.Bool), cast(onnxgen.Float16),
}

// same makes a value of x's type and shape.
func (g *generator) same(op string, x value, others ...string) value {
	return g.node(op, append([]string{x.name}, others...), x.kind, x.dims)
}

func (g *generator) along(op string, x value, axis int64) value {
	return g.node(op, []string{x.name}, x.kind, x.dims, onnxgen.IntAttribute("axis", axis))
}

func simple(op string) func(*generator, value) value {
	return func(g *generator, x value) value { return g.same(op, x) }
}

// reduced takes something of all rows away from each.
func reduced(op string) func(*generator, value) value {
	return func(g *generator, x value) value {
		g.rows = false
		all := g.node(op, []string{x.name}, x.kind, []onnxgen.Dim{{Size: 1}, x.dims[1]}, onnxgen.IntsAttribute("axes", 0))
		return g.same("Sub", x, all.name)
	}
}

func cast(to onnxgen.Type) func(*generator, value) value {
	return func(g *generator, x value) value {
		return g.node("Cast", []string{x.name}, to, x.dims, onnxgen.IntAttribute("to", int64(to)))
	}
}
