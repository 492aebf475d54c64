package httpapi

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	alignment     = 64                       // of the first binary tensor in a body: a cache line, and what runtimes like best
	minBlock      = 4 << 10                  // the smallest block
	minBlockShift = 12                       // log2(minBlock)
	blockClasses  = 4*(36-minBlockShift) + 1 // the largest: 64 GiB
)

// memory lends blocks for bodies and answers, at most max bytes at once. Blocks come in classes, four to each power of
// two, so that the blocks of past requests fit new ones; what a class adds, at most a quarter, is not counted.
type memory struct {
	max   int64
	inUse atomic.Int64
	pools [blockClasses]sync.Pool // of *block
}

// block is lent by a memory and given back with free. Its bytes begin at a multiple of alignment.
type block struct {
	owner *memory
	class int   // -1: it did not come from a pool
	held  int64 // bytes counted for it
	bytes []byte
}

// blockClass returns the class of the smallest blocks with at least n bytes.
func blockClass(n int64) int {
	if n <= minBlock {
		return 0
	}
	shift := bits.Len64(uint64(n-1)) - 1
	quarter := int((n-1)>>(shift-2)) & 3
	return 4*(shift-minBlockShift) + quarter + 1
}

// blockSize returns the bytes of a block of the class.
func blockSize(class int) int64 {
	if class == 0 {
		return minBlock
	}
	shift, quarter := minBlockShift+(class-1)/4, (class-1)%4
	return int64(4+quarter+1) << (shift - 2)
}

// take lends a block of at least n bytes, and room to shift them by less than alignment. It returns nil when that would
// exceed max.
func (m *memory) take(n int64) *block {
	class := blockClass(n + alignment)
	if class >= blockClasses || !m.reserve(n) {
		return nil
	}
	b, ok := m.pools[class].Get().(*block)
	if !ok {
		b = &block{owner: m, class: class, bytes: aligned(int(blockSize(class)))}
	}
	b.held = n
	return b
}

// hold counts n bytes elsewhere for as long as b is held, and tells whether that stays within max.
func (b *block) hold(n int64) bool {
	if !b.owner.reserve(n) {
		return false
	}
	b.held += n
	return true
}

// adopt counts memory that was not lent, as a block. It returns nil when that would exceed max.
func (m *memory) adopt(bytes []byte) *block {
	if !m.reserve(int64(cap(bytes))) {
		return nil
	}
	return &block{owner: m, class: -1, held: int64(cap(bytes)), bytes: bytes}
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

// free ends the use of the block's bytes. A nil block is fine.
func (b *block) free() {
	if b == nil {
		return
	}
	b.owner.inUse.Add(-b.held)
	if b.class >= 0 {
		b.owner.pools[b.class].Put(b)
	}
}

// aligned returns n bytes that begin at a multiple of alignment. The collector does not move them.
func aligned(n int) []byte {
	raw := make([]byte, n+alignment)
	skip := -uintptr(unsafe.Pointer(&raw[0])) & (alignment - 1)
	return raw[skip : int(skip)+n : int(skip)+n]
}
