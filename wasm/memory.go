package wasm

import (
	"syscall"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/edgewise-ai/edgewise"
)

// memory is the linear memory of one guest: address space for as much as it may ever have, of which the system provides
// what is touched. It never moves, so tensors may point into it, and it can be made smaller again. It implements both
// interfaces of the runtime's allocator.
type memory struct {
	space  []byte // nil after Free
	size   int    // bytes the guest has
	shrink int    // what the next Reallocate makes of it, when above 0
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

// newMemory maps address space, all zeros, that takes no memory until it is touched. Errors: Exhausted.
func newMemory(most int64) (*memory, error) {
	space, err := syscall.Mmap(-1, 0, max(int(most), 1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, edgewise.Errorf("wasm.newMemory", edgewise.Exhausted, "reserve %d bytes of address space for a step: %w", most, err)
	}
	return &memory{space: space}, nil
}

// Allocate returns the memory itself: a guest has one.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate makes the memory larger, or says nil when it may not be.
func (m *memory) Reallocate(size uint64) []byte {
	if m.shrink > 0 {
		size = uint64(m.shrink)
	}
	if size > uint64(len(m.space)) {
		return nil
	}
	m.size = int(size)
	return m.space[:size:size]
}

// Free gives the address space back. It may be called again.
func (m *memory) Free() {
	if m.space != nil {
		_ = syscall.Munmap(m.space) // the only error is that it was not mapped, which cannot be
		m.space = nil
	}
}

// grower is the part of a guest's memory that resize needs.
type grower interface {
	Grow(pages uint32) (uint32, bool)
}

// resize makes the memory as small as it was, by growing it: growing is what makes the runtime ask for its buffer
// again. The module declares a page more than it may have, so that there is always room to grow.
func (m *memory) resize(g grower, size int) bool {
	if size == m.size {
		return true
	}
	m.shrink = size
	_, ok := g.Grow(1)
	m.shrink = 0
	return ok && m.size == size
}
