package onnxgen

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// tablesPerProduct is how many tables of Tables come with each matrix product.
const tablesPerProduct = 8

// Tables makes a model of n bytes of FP32 weights, rounded up to 4 MiB, of which a request reads little: rows of tables
// that are added up, as of embeddings, and now and then a matrix product. x is INT64 [batch], below 1024; y is FP32
// [batch,1024]. Below 2 GiB; the memory it takes here does not grow with n.
func Tables(n int64, seed uint64) *Model {
	const block = weightsSide * weightsSide * 4
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 0, block)
	for len(data) < block {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits((rng.Float32()*2-1)/32))
	}
	g := Graph{Name: "tables"}
	node := func(op string, in ...string) string {
		out := name("t", len(g.Nodes))
		g.Nodes = append(g.Nodes, Node{Op: op, In: in, Out: []string{out}})
		return out
	}
	sum := ""
	for i := range max(1, (n+block-1)/block) {
		w := name("w", int(i))
		g.Initializers = append(g.Initializers, Tensor{Name: w, Type: Float, Dims: []int64{weightsSide, weightsSide}, Data: data})
		switch {
		case i == 0:
			sum = node("Gather", w, "x")
		case i%tablesPerProduct == 0:
			sum = node("MatMul", sum, w)
		default:
			sum = node("Add", sum, node("Gather", w, "x"))
		}
	}
	g.Nodes = append(g.Nodes, Node{Op: "Identity", In: []string{sum}, Out: []string{"y"}})
	g.Inputs = []Value{{Name: "x", Type: Int64, Dims: Batch()}}
	g.Outputs = []Value{{Name: "y", Type: Float, Dims: Batch(weightsSide)}}
	return &Model{Graph: g}
}
