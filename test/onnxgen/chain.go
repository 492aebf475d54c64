package onnxgen

import (
	"fmt"
	"math/rand/v2"
)

// chain is a small model of floating-point numbers that is made: operators over [batch, rows, columns], or over a picture,
// with what the provider for WebGPU computes differently from the CPU: convolutions, products, reductions, transpositions.
type chain struct {
	*rand.Rand
	graph Graph
	made  int
}

// Chain makes the small model of a seed: a chain of operators of FP32 [batch, ...], whose input is x. row is the shape of
// that without the batch.
func Chain(seed uint64) (m *Model, row []int64) {
	g := &chain{Rand: rand.New(rand.NewPCG(seed, 25))}
	rank := 1 + seed%3
	row = []int64{8, 6, 10}[:rank]
	x, shape := "x", row
	for range 2 + g.IntN(3) {
		x, shape = g.step(x, shape)
	}
	y := g.node("Softmax", []string{x}, IntAttribute("axis", -1))
	g.graph.Inputs = []Value{{Name: "x", Type: Float, Dims: Batch(row...)}}
	g.graph.Outputs = []Value{{Name: x, Type: Float, Dims: Batch(shape...)}, {Name: y, Type: Float, Dims: Batch(shape...)}}
	return &Model{Graph: g.graph}, row
}

// OneDimension makes a convolution over one dimension, which the provider for WebGPU computes wrong in its own layout.
func OneDimension() (m *Model, row []int64) {
	g, row := &chain{Rand: rand.New(rand.NewPCG(1, 1))}, []int64{129, 4}
	y, to := g.conv("x", row)
	g.graph.Inputs = []Value{{Name: "x", Type: Float, Dims: Batch(row...)}}
	g.graph.Outputs = []Value{{Name: y, Type: Float, Dims: Batch(to...)}}
	return &Model{Graph: g.graph}, row
}

// step adds an operator, which keeps the rank.
func (g *chain) step(x string, shape []int64) (string, []int64) {
	last := len(shape) - 1
	switch n := g.IntN(6); {
	case n == 0 && last > 0:
		return g.conv(x, shape)
	case n == 1 && last > 0:
		perm := []int64{0, 2, 1}
		turned := []int64{shape[1], shape[0]}
		if last == 2 {
			perm, turned = []int64{0, 1, 3, 2}, []int64{shape[0], shape[2], shape[1]}
		}
		return g.node("Transpose", []string{x}, IntsAttribute("perm", perm...)), turned
	case n <= 2:
		out := int64(3 + g.IntN(6))
		to := append(append([]int64{}, shape[:last]...), out)
		return g.node("MatMul", []string{x, g.weights(shape[last], out)}), to
	case n == 3:
		op := []string{"Add", "Mul", "Sub"}[g.IntN(3)]
		return g.node(op, []string{x, g.weights(shape[last])}), shape
	case n == 4:
		mean := g.node("ReduceMean", []string{x}, IntsAttribute("axes", int64(len(shape))))
		return g.node("Sub", []string{x, mean}), shape
	}
	op := []string{"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf"}[g.IntN(6)]
	return g.node(op, []string{x}), shape
}

// conv adds a convolution over what stands behind the first dimension, one or two.
func (g *chain) conv(x string, shape []int64) (string, []int64) {
	out := int64(2 + g.IntN(5))
	weights := []int64{out, shape[0]}
	pads := []int64{}
	to := append([]int64{out}, shape[1:]...)
	for range shape[1:] {
		weights, pads = append(weights, 3), append(pads, 1, 1)
	}
	return g.node("Conv", []string{x, g.weights(weights...), g.weights(out)}, IntsAttribute("pads", pads...)), to
}

func (g *chain) node(op string, in []string, attributes ...Attribute) string {
	g.made++
	out := fmt.Sprintf("t%d", g.made)
	g.graph.Nodes = append(g.graph.Nodes, Node{Op: op, In: in, Out: []string{out}, Attributes: attributes})
	return out
}

func (g *chain) weights(dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = g.Float32() - 0.5
	}
	g.made++
	t := Floats(fmt.Sprintf("w%d", g.made), dims, values...)
	g.graph.Initializers = append(g.graph.Initializers, t)
	return t.Name
}
