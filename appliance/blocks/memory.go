// Package blocks hands out the memory of requests and answers, and bounds what is used and what is kept for later
// together.
package blocks

import (
	"errors"
	"io"
	"math/bits"
	"runtime/debug"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise/aligned"
)

const (
	// Alignment is that of a block's first byte: a cache line, and what runtimes like best.
	Alignment = 64

	minBlock      = 4 << 10                  // the smallest block
	minBlockShift = 12                       // log2(minBlock)
	blockClasses  = 4*(36-minBlockShift) + 1 // the largest: 64 GiB

	keptShare    = 8               // the part of the bound that blocks may take which nobody uses
	trimInterval = 5 * time.Second // how often blocks are dropped that were not used since
	releaseBytes = 64 << 20        // dropped bytes that are given back to the system at once
	releaseDelay = time.Second     // and how long that may wait
)

// Memory hands out blocks for bodies and answers, at most max bytes at once. Blocks come in classes, four to each power
// of two, so that the blocks of past requests fit new ones; what a class adds, at most a quarter, is not counted.
// Blocks that nobody uses take an eighth of max at most, go when there is no room for a new one beside them, and go
// when they were not needed for a while. It is safe for concurrent use.
type Memory struct {
	max        int64
	collecting sync.Mutex // held while discarded memory is given back

	mu       sync.Mutex // guards the fields below
	inUse    int64
	kept     int64 // bytes of free blocks
	free     [blockClasses][]*Block
	unused   [blockClasses]int // the least free blocks of a class since the last trim
	dropped  int64             // bytes that the collector may have not taken yet
	trimming bool
	giving   bool
}

// New returns a Memory of at most max bytes.
func New(max int64) *Memory { return &Memory{max: max} }

// Block is borrowed from a Memory until Free. Its bytes begin at a multiple of Alignment.
type Block struct {
	Bytes []byte

	owner *Memory
	class int   // -1: it was adopted
	held  int64 // bytes counted for it
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

// Take returns a block of at least n bytes, and room to shift them by less than Alignment. It returns nil when that
// would exceed the bound.
func (m *Memory) Take(n int64) *Block {
	class := blockClass(n + Alignment)
	if class >= blockClasses {
		return nil
	}
	b, ok := m.reuse(n, class)
	if !ok {
		return nil
	}
	if b == nil {
		m.collect()
		b = &Block{owner: m, class: class, Bytes: aligned.Bytes(int(blockSize(class)), Alignment)}
	}
	b.held = n
	return b
}

// reuse counts n bytes and returns a free block of the class, nil when there is none. ok is false when there is no
// room.
func (m *Memory) reuse(n int64, class int) (b *Block, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse+n > m.max {
		return nil, false
	}
	m.inUse += n
	if last := len(m.free[class]) - 1; last >= 0 {
		b = m.free[class][last]
		m.free[class][last] = nil
		m.free[class] = m.free[class][:last]
		m.unused[class] = min(m.unused[class], last)
		m.kept -= blockSize(class)
		return b, true
	}
	for c := blockClasses - 1; c >= 0 && m.inUse+m.kept > m.max; c-- {
		for len(m.free[c]) > 0 && m.inUse+m.kept > m.max {
			m.drop(c)
		}
	}
	return nil, true
}

// drop leaves the oldest free block of a class to the collector. The caller holds mu.
func (m *Memory) drop(class int) {
	m.free[class][0] = nil
	m.free[class] = m.free[class][1:]
	m.unused[class] = min(m.unused[class], len(m.free[class]))
	m.kept -= blockSize(class)
	m.discard(blockSize(class))
}

// discard notes that memory of n bytes is no longer used, which the collector may not find out for long. The caller
// holds mu.
func (m *Memory) discard(n int64) {
	m.dropped += n
	if m.dropped >= releaseBytes && !m.giving {
		m.giving = true
		time.AfterFunc(releaseDelay, m.release)
	}
}

// collect gives discarded memory back before a new block would exceed the bound beside it.
func (m *Memory) collect() {
	m.collecting.Lock()
	defer m.collecting.Unlock()
	m.mu.Lock()
	needed := m.dropped >= releaseBytes && m.inUse+m.kept+m.dropped > m.max
	m.mu.Unlock()
	if needed {
		m.giveBack()
	}
}

// release gives discarded memory back some time after it was discarded.
func (m *Memory) release() {
	m.collecting.Lock()
	defer m.collecting.Unlock()
	m.giveBack()
}

// giveBack gives discarded memory back to the system. The caller holds collecting.
func (m *Memory) giveBack() {
	m.mu.Lock()
	m.giving = false
	dropped := m.dropped
	m.mu.Unlock()
	debug.FreeOSMemory()
	m.mu.Lock()
	m.dropped -= dropped
	m.mu.Unlock()
}

// trim drops the blocks that nobody has needed since the last trim, and goes on while there are others.
func (m *Memory) trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.free {
		for range m.unused[c] {
			m.drop(c)
		}
		m.unused[c] = len(m.free[c])
	}
	if m.trimming = m.kept > 0; m.trimming {
		time.AfterFunc(trimInterval, m.trim)
	}
}

// Adopt counts memory that was not taken, as a block. It returns nil when that would exceed the bound.
func (m *Memory) Adopt(bytes []byte) *Block {
	if !m.Reserve(int64(cap(bytes))) {
		return nil
	}
	return &Block{owner: m, class: -1, held: int64(cap(bytes)), Bytes: bytes}
}

// Reserve counts n bytes, and tells whether that stays within the bound. Return gives them back.
func (m *Memory) Reserve(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse+n > m.max {
		return false
	}
	m.inUse += n
	return true
}

// Return gives back n bytes of Reserve.
func (m *Memory) Return(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse -= n
}

// InUse returns the bytes that are counted now, and Kept those of blocks that nobody uses.
func (m *Memory) InUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inUse
}

// Kept returns the bytes of blocks that nobody uses.
func (m *Memory) Kept() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// Full tells whether there is no room for one byte more.
func (m *Memory) Full() bool { return m.InUse() >= m.max }

// Hold counts n bytes elsewhere for as long as b is held, and tells whether that stays within the bound.
func (b *Block) Hold(n int64) bool {
	if !b.owner.Reserve(n) {
		return false
	}
	b.held += n
	return true
}

// Free ends the use of the block's bytes. A nil block is fine.
func (b *Block) Free() {
	if b == nil {
		return
	}
	m := b.owner
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse -= b.held
	if b.class < 0 {
		m.discard(int64(cap(b.Bytes)))
		return
	}
	size := blockSize(b.class)
	if m.kept+size > m.max/keptShare || m.inUse+m.kept+size > m.max {
		m.discard(size)
		return
	}
	m.kept += size
	m.free[b.class] = append(m.free[b.class], b)
	if !m.trimming {
		m.trimming = true
		time.AfterFunc(trimInterval, m.trim)
	}
}

// Errors of Expand beside those of its reader.
var (
	ErrFull    = errors.New("blocks: no room")
	ErrTooLong = errors.New("blocks: longer than the limit")
)

// expansionStart is how many times its length expanded data is expected to have at first.
const expansionStart = 4

// Expand reads r, which expands encoded bytes, to its end into a block, from start on. It counts memory as it is
// needed: a block that is too small is replaced by one of twice its size. The block is the caller's. Errors: ErrFull,
// ErrTooLong when r has more than limit bytes, and those of r.
func (m *Memory) Expand(r io.Reader, encoded int64, start int, limit int64) (b *Block, size int, err error) {
	if b = m.Take(min(expansionStart*encoded, limit+1)); b == nil {
		return nil, 0, ErrFull
	}
	for {
		n, err := r.Read(b.Bytes[start+size:])
		size += n
		switch {
		case int64(size) > limit:
			b.Free()
			return nil, 0, ErrTooLong
		case errors.Is(err, io.EOF):
			return b, size, nil
		case err != nil:
			b.Free()
			return nil, 0, err
		case start+size < len(b.Bytes):
			continue
		}
		larger := m.Take(min(2*int64(len(b.Bytes)), limit+Alignment+1))
		if larger == nil {
			b.Free()
			return nil, 0, ErrFull
		}
		copy(larger.Bytes[start:], b.Bytes[start:start+size])
		b.Free()
		b = larger
	}
}
