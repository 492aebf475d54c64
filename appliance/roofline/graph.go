package roofline

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The models that are run: their sizes.
const (
	side     = 768  // of the matrices
	products = 4    // of one run
	chain    = 1000 // operators of the model whose operators do nothing
)

// operations of one run of matrices.
const operations = 2.0 * side * side * side * products

// matrices is a model that multiplies matrices: x, one number, is added to the weights, so that nothing can be computed
// at the load, and the largest element of the product comes out.
func matrices() []byte {
	w := message{}.number(1, side).number(1, side).number(2, 1).bytes(8, []byte("w"))
	raw := make([]byte, 0, 4*side*side)
	for range side * side { // rows whose sum is 1 keep the numbers what they are
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(1.0/side))
	}
	w = w.bytes(9, raw)
	g := message{}.bytes(1, node("Add", []string{"x", "w"}, "t0"))
	for i := range products {
		g = g.bytes(1, node("MatMul", []string{"t" + strconv.Itoa(i), "w"}, "t"+strconv.Itoa(i+1)))
	}
	g = g.bytes(1, node("ReduceMax", []string{"t" + strconv.Itoa(products)}, "y")).bytes(2, []byte("matrices")).bytes(5, w)
	return model(g)
}

// operators is a model of operators that compute one number each.
func operators() []byte {
	w := message{}.number(1, 1).number(1, 1).number(2, 1).bytes(8, []byte("w"))
	w = w.bytes(9, binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5))) // 0 and 1 are left out by the runtime
	g := message{}
	last := "x"
	for i := range chain {
		out := "t" + strconv.Itoa(i)
		if i == chain-1 {
			out = "y"
		}
		g, last = g.bytes(1, node("Add", []string{last, "w"}, out)), out
	}
	return model(g.bytes(2, []byte("operators")).bytes(5, w))
}

// model closes a graph from x to y, both FP32 of one row and one column.
func model(g message) []byte {
	one := message{}.number(1, 1)
	shape := message{}.bytes(1, one).bytes(1, one)
	kind := message{}.bytes(1, message{}.number(1, 1).bytes(2, shape))
	g = g.bytes(11, message{}.bytes(1, []byte("x")).bytes(2, kind)).bytes(12, message{}.bytes(1, []byte("y")).bytes(2, kind))
	return message{}.number(1, 8).bytes(7, g).bytes(8, message{}.number(2, 13))
}

func node(op string, in []string, out string) message {
	m := message{}
	for _, name := range in {
		m = m.bytes(1, []byte(name))
	}
	return m.bytes(2, []byte(out)).bytes(4, []byte(op))
}

// message is a message of protobuf.
type message []byte

func (m message) number(field int, v uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), v)
}

func (m message) bytes(field int, b []byte) message {
	m = binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3|2), uint64(len(b)))
	return append(m, b...)
}
