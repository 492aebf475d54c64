package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// value is a tensor inside a model that is being made.
type value struct {
	name string
	kind onnxgen.Type
	dims []onnxgen.Dim
}

// generator makes one model.
type generator struct {
	random *rand.Rand
	graph  onnxgen.Graph
	made   int
	rows   bool // every output's row follows from its input's row alone
}

// names are those of first dimensions: a batch is none by its name.
var names = []string{"batch", "time", "N", ""}

// generate makes the model of a seed. rows says that it was made of operators that keep rows apart.
func generate(seed uint64) (m *onnxgen.Model, rows bool) {
	g := &generator{random: rand.New(rand.NewPCG(seed, 18)), rows: true}
	switch g.random.IntN(12) {
	case 0:
		g.product()
	case 1:
		g.text()
	default:
		g.chain()
	}
	return &onnxgen.Model{Graph: g.graph}, g.rows
}

func (g *generator) node(op string, in []string, kind onnxgen.Type, dims []onnxgen.Dim, attributes ...onnxgen.Attribute) value {
	g.made++
	v := value{fmt.Sprintf("t%d", g.made), kind, dims}
	g.graph.Nodes = append(g.graph.Nodes, onnxgen.Node{Op: op, In: in, Out: []string{v.name}, Attributes: attributes})
	return v
}

func (g *generator) constant(t onnxgen.Tensor) string {
	g.made++
	t.Name = fmt.Sprintf("c%d", g.made)
	g.graph.Initializers = append(g.graph.Initializers, t)
	return t.Name
}

func (g *generator) input(v value) value {
	g.graph.Inputs = append(g.graph.Inputs, onnxgen.Value{Name: v.name, Type: v.kind, Dims: v.dims})
	return v
}

func (g *generator) output(v value) {
	if !slices.ContainsFunc(g.graph.Outputs, func(o onnxgen.Value) bool { return o.Name == v.name }) {
		g.graph.Outputs = append(g.graph.Outputs, onnxgen.Value{Name: v.name, Type: v.kind, Dims: v.dims})
	}
}

// product multiplies two matrices of variable sizes.
func (g *generator) product() {
	a, b, c := onnxgen.Dim{Name: "a"}, onnxgen.Dim{Name: "b"}, onnxgen.Dim{Name: "c"}
	if g.random.IntN(2) == 0 {
		b = a // every first dimension has one name, and none is a batch
	}
	left := g.input(value{"left", onnxgen.Float, []onnxgen.Dim{a, b}})
	right := g.input(value{"right", onnxgen.Float, []onnxgen.Dim{b, c}})
	g.output(g.node("MatMul", []string{left.name, right.name}, onnxgen.Float, []onnxgen.Dim{a, c}))
	g.passed([]value{left, right})
	g.rows = false
}

// text hands strings through.
func (g *generator) text() {
	in := g.input(value{"words", onnxgen.String, []onnxgen.Dim{g.first(), {Size: 1 + g.random.Int64N(3)}}})
	g.output(g.node("Identity", []string{in.name}, in.kind, in.dims))
	g.passed([]value{in})
}

// first is a first dimension.
func (g *generator) first() onnxgen.Dim {
	if g.random.IntN(8) == 0 {
		return onnxgen.Dim{Size: 1 + g.random.Int64N(3)}
	}
	return onnxgen.Dim{Size: -1, Name: names[g.random.IntN(len(names))]}
}

// chain makes one to five operators behind each other, and outputs of some of them.
func (g *generator) chain() {
	widths := []int64{1, 2, 3, 8, 33, 200}
	x := g.input(value{"x", onnxgen.Float, []onnxgen.Dim{g.first(), {Size: widths[g.random.IntN(len(widths))]}}})
	all, v := []value{x}, x
	for range 1 + g.random.IntN(5) {
		if v.kind != onnxgen.Float || len(v.dims) != 2 {
			break
		}
		v = operators[g.random.IntN(len(operators))](g, v)
		all = append(all, v)
	}
	if g.random.IntN(4) == 0 { // a second input beside it
		y := g.input(value{"y", x.kind, x.dims})
		sum := g.node("Add", []string{x.name, y.name}, x.kind, x.dims)
		g.output(sum)
		all = append(all, y)
	}
	g.output(v)
	g.passed(all)
}

// passed makes more outputs: of inputs, of what is in between, and of a constant.
func (g *generator) passed(all []value) {
	for _, v := range all {
		if g.random.IntN(4) == 0 {
			g.output(v)
		}
	}
	if g.random.IntN(16) == 0 {
		name := g.constant(onnxgen.Floats("", []int64{9}, 1, 2, 3, 4, 5, 6, 7, 8, 9))
		g.output(value{name, onnxgen.Float, onnxgen.Dims(9)})
		g.rows = false
	}
	g.random.Shuffle(len(g.graph.Outputs), func(i, j int) {
		g.graph.Outputs[i], g.graph.Outputs[j] = g.graph.Outputs[j], g.graph.Outputs[i]
	})
}
