package runner

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of blocks, in bytes.
const (
	minBlock  = 64 << 10
	alignment = 64      // of every tensor in a block
	keptIdle  = 8 << 20 // of the blocks for runs that are kept however long nobody uses them
)

// trimInterval is after which time blocks are given up that no run has used, at the latest after twice as long.
const trimInterval = 5 * time.Second

// errArena says that the arena's bound is reached.
type errArena struct{ need, max int64 }

func (e errArena) Error() string {
	return fmt.Sprintf("%d more bytes of tensors do not fit into the %d bytes of shared memory that the runs of a "+
		"model and their results may take", e.need, e.max)
}

// arena is the memory that the parent shares with its children, as blocks. A block belongs to one run or to one caller
// of Alloc or AllocBody at a time. It outlives the child that wrote to it, so results stay readable after a crash.
type arena struct {
	max    int64
	forget func([]uint32) // tells the child which blocks were given up

	mu        sync.Mutex
	size      int64    // of all blocks
	idle      []*block // the longest unused first
	idleBytes int64
	trimming  bool                // a trim is due
	inUse     map[*block]struct{} // by callers of Alloc and AllocBody
	next      uint32

	borrowed      atomic.Int64 // by callers of AllocBody
	idleBodies    []*block     // see borrow.go
	borrowedBytes int64        // bytes of the blocks for bodies, idle or in use
}

// block is one memory file, mapped here and in the child. It cannot shrink, whatever the child does.
type block struct {
	id   uint32
	fd   int
	data []byte
	seen atomic.Uint64 // the generation of the child that has mapped it, 0: none
	most int64         // so many of its bytes were used at once since the last trim
}

func newArena(max int64, forget func([]uint32)) *arena {
	return &arena{max: max, forget: forget, inUse: map[*block]struct{}{}}
}

// acquire returns a block of at least need bytes, and the blocks that were given up for it. Errors: errArena, or the
// system's.
func (a *arena) acquire(need int64) (b *block, dropped []uint32, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := fitting(a.idle, need); i >= 0 {
		b = a.idle[i]
		a.idle = slices.Delete(a.idle, i, i+1)
		a.idleBytes -= int64(len(b.data))
		return b, nil, nil
	}
	size := blockSize(need)
	dropped = a.makeRoom(size)
	if size > a.max-a.size {
		size = need
	}
	if size > a.max-a.size {
		return nil, dropped, errArena{need, a.max}
	}
	a.next++
	b, err = newBlock(a.next, size)
	if err == nil {
		a.size += int64(len(b.data))
	}
	return b, dropped, err
}

// fitting returns the index of the smallest block of at least need bytes, the latest used among equals; or -1.
func fitting(idle []*block, need int64) int {
	best := -1
	for i, b := range idle {
		if int64(len(b.data)) >= need && (best < 0 || len(b.data) <= len(idle[best].data)) {
			best = i
		}
	}
	return best
}

// makeRoom gives idle blocks up, the longest unused first, until size more bytes fit.
func (a *arena) makeRoom(size int64) (dropped []uint32) {
	for len(a.idle) > 0 && size > a.max-a.size {
		dropped = append(dropped, a.dropIdle(0))
	}
	for len(a.idleBodies) > 0 && size > a.max-a.size {
		dropped = append(dropped, a.clear())
	}
	return dropped
}

// dropIdle gives up an idle block, and returns its number. The caller holds mu.
func (a *arena) dropIdle(i int) uint32 {
	b := a.idle[i]
	a.idle = slices.Delete(a.idle, i, i+1)
	a.idleBytes -= int64(len(b.data))
	a.size -= int64(len(b.data))
	b.close()
	return b.id
}

// trim gives up the blocks of which no run has used a quarter since the last trim, but for keptIdle bytes, and comes
// again while there are more than these.
func (a *arena) trim() {
	a.mu.Lock()
	var dropped []uint32
	for i := 0; i < len(a.idle) && a.idleBytes > keptIdle; {
		if b := a.idle[i]; b.most >= int64(len(b.data))/4 {
			i++
			continue
		}
		dropped = append(dropped, a.dropIdle(i))
	}
	for _, b := range a.idle {
		b.most = 0
	}
	a.trimming = false
	a.trimLater()
	a.mu.Unlock()
	a.forget(dropped)
}

// trimLater has the arena trimmed if there is anything to give up. The caller holds mu.
func (a *arena) trimLater() {
	if !a.trimming && a.idleBytes > keptIdle {
		a.trimming = true
		time.AfterFunc(trimInterval, a.trim)
	}
}

// grow makes a block at least need bytes long. Its content stays; its data may move.
func (a *arena) grow(b *block, need int64) (dropped []uint32, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := blockSize(need)
	dropped = a.makeRoom(size - int64(len(b.data)))
	if size-int64(len(b.data)) > a.max-a.size {
		return dropped, errArena{need - int64(len(b.data)), a.max}
	}
	before := int64(len(b.data))
	if err := b.resize(size); err != nil {
		return dropped, err
	}
	a.size += size - before
	return dropped, nil
}

// release ends the use of a block, of which the first used bytes were needed.
func (a *arena) release(b *block, used int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep(b, used)
}

// drop ends a block that is in use.
func (a *arena) drop(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size -= int64(len(b.data))
	b.close()
}

// keep makes a block idle, or ends it when the arena is closed. The caller holds mu.
func (a *arena) keep(b *block, used int64) {
	if a.max == 0 {
		b.close()
		return
	}
	b.most = max(b.most, used)
	a.idle = append(a.idle, b)
	a.idleBytes += int64(len(b.data))
	a.trimLater()
}

// find returns the block in use by a caller in which data stands, nil when it stands in none.
func (a *arena) find(data []byte) (*block, uint64) {
	if len(data) == 0 {
		return nil, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for b := range a.inUse {
		if at, within := offsetWithin(data, b.data); within {
			return b, at
		}
	}
	return nil, 0
}

func (a *arena) handOut(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inUse[b] = struct{}{}
}

func (a *arena) giveBack(b *block, used int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.inUse, b)
	a.keep(b, used)
}

// close unmaps every idle block. Blocks that are still in use stay, so that a late reader does not fault.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range append(a.idle, a.idleBodies...) {
		b.close()
	}
	a.idle, a.idleBytes, a.idleBodies, a.max = nil, 0, nil, 0
}

// blockSize rounds up to a power of two from minBlock on: blocks are reused more often, and the memory beyond what a
// tensor takes is never touched.
func blockSize(need int64) int64 {
	if need <= minBlock {
		return minBlock
	}
	return int64(1) << bits.Len64(uint64(need-1))
}

// align rounds an offset up to where the next tensor may stand.
func align(n uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }

func newBlock(id uint32, size int64) (*block, error) {
	fd, data, err := newShared(size)
	return &block{id: id, fd: fd, data: data}, err
}

// newShared makes a memory file that cannot shrink, and maps it.
func newShared(size int64) (fd int, data []byte, err error) {
	fd, err = unix.MemfdCreate("edgewise", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fd, nil, err
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err == nil {
		data, err = mapShared(fd, size)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, data, err
}

func (b *block) resize(size int64) error {
	if err := unix.Ftruncate(b.fd, size); err != nil {
		return err
	}
	data, err := unix.Mremap(b.data, int(size), unix.MREMAP_MAYMOVE)
	if err == nil {
		b.data = data
	}
	return err
}

func mapShared(fd int, size int64) ([]byte, error) {
	return unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (b *block) close() {
	_ = unix.Munmap(b.data)
	_ = unix.Close(b.fd)
}
