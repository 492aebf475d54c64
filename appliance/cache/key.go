package cache

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// key is a hash of the parts of a request that its response depends on. It is cryptographic: with two requests of one
// key a client could read the response to another client.
type key [sha256.Size]byte

// keyOf returns the key of a request to the version with a serial. The order of inputs does not matter; that of the
// requested outputs does: it is the order of the response.
func keyOf(serial uint64, req *edgewise.Request) key {
	w := writer{hash: sha256.New()}
	w.number(serial)
	w.number(uint64(len(req.Inputs)))
	for _, in := range slices.SortedFunc(slices.Values(req.Inputs),
		func(a, b edgewise.Tensor) int { return cmp.Compare(a.Name, b.Name) }) {
		w.text(in.Name)
		w.number(uint64(in.Type))
		w.number(uint64(len(in.Shape)))
		for _, n := range in.Shape {
			w.number(uint64(n))
		}
		w.number(uint64(len(in.Data)))
		_, _ = w.hash.Write(in.Data)
	}
	w.number(uint64(len(req.Outputs)))
	for _, name := range req.Outputs {
		w.text(name)
	}
	w.number(uint64(len(req.Parameters)))
	for _, name := range slices.Sorted(maps.Keys(req.Parameters)) {
		w.text(name)
		w.parameter(req.Parameters[name])
	}
	var k key
	w.hash.Sum(k[:0])
	return k
}

// writer feeds a hash so that different fields never give the same bytes: every text carries its length.
type writer struct {
	hash    hash.Hash
	scratch [8]byte
}

func (w *writer) number(n uint64) {
	binary.LittleEndian.PutUint64(w.scratch[:], n)
	_, _ = w.hash.Write(w.scratch[:])
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	_, _ = w.hash.Write([]byte(s))
}

func (w *writer) parameter(value any) {
	switch v := value.(type) {
	case string:
		w.text("s")
		w.text(v)
	case int64:
		w.text("i")
		w.number(uint64(v))
	case float64:
		w.text("f")
		w.number(math.Float64bits(v))
	case bool:
		w.text(fmt.Sprintf("b%t", v))
	default:
		w.text(fmt.Sprintf("%T %v", v, v))
	}
}
