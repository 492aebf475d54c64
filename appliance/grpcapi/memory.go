package grpcapi

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	alignment    = 64 // of the first tensor of a message: a cache line, and what runtimes like best
	minBlock     = 4 << 10
	minShift     = 12 // log2(minBlock)
	blockClasses = 33 - minShift
)

// memory lends blocks for inference requests, at most max bytes at once. Blocks of the same power of two are used again.
type memory struct {
	max   int64
	inUse atomic.Int64
	pools [blockClasses]sync.Pool // of *block
}

// block is lent by a memory and given back with free. Its bytes begin at a multiple of alignment.
type block struct {
	owner *memory
	class int
	held  int64 // bytes counted for it
	bytes []byte
}

// take lends a block of at least n bytes. It returns nil when that would exceed max, or n a message's bound.
func (m *memory) take(n int) *block {
	class := max(bits.Len64(uint64(max(n, 1)-1)), minShift) - minShift
	if class >= blockClasses || !m.reserve(int64(n)) {
		return nil
	}
	b, ok := m.pools[class].Get().(*block)
	if !ok {
		b = &block{owner: m, class: class, bytes: aligned(minBlock << class)}
	}
	b.held = int64(n)
	return b
}

func (m *memory) reserve(n int64) bool {
	for {
		old := m.inUse.Load()
		if old+n > m.max {
			return false
		}
		if m.inUse.CompareAndSwap(old, old+n) {
			return true
		}
	}
}

// full tells whether there is no room for one byte more.
func (m *memory) full() bool { return m.inUse.Load() >= m.max }

// free ends the use of the block's bytes. A nil block is fine.
func (b *block) free() {
	if b == nil {
		return
	}
	b.owner.inUse.Add(-b.held)
	b.owner.pools[b.class].Put(b)
}

// aligned returns n bytes that begin at a multiple of alignment. The collector does not move them.
func aligned(n int) []byte {
	raw := make([]byte, n+alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (alignment - 1))
	return raw[skip : skip+n : skip+n]
}
