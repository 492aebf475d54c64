package kserve

import "github.com/edgewise-ai/edgewise/aligned"

const (
	alignment  = 64      // bytes; what vector instructions of the runtimes like
	arenaKept  = 4 << 20 // bytes of a block that is kept for the next request
	arenaFirst = 1 << 10 // bytes of the smallest block
)

// arena hands out the memory of the tensors of one request, each 64-byte aligned, and gives it back in one step.
type arena struct {
	block []byte
	used  int
	total int // handed out since the last reset, rounded up
	want  int // what the request before needed: the next block has room for as much
}

// take returns n bytes of undefined content.
func (a *arena) take(n int) []byte {
	room := (n + alignment - 1) &^ (alignment - 1)
	a.total += room
	if a.used+room > len(a.block) {
		a.block = aligned.Bytes(max(room, a.want, arenaFirst), alignment)
		a.used = 0
	}
	taken := a.block[a.used : a.used+n : a.used+n]
	a.used += room
	return taken
}

// reset takes back everything. A block over arenaKept is left to the garbage collector.
func (a *arena) reset() {
	a.want = min(a.total, arenaKept)
	a.used, a.total = 0, 0
	if len(a.block) > arenaKept || len(a.block) < a.want {
		a.block = nil
	}
}
