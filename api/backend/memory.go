package backend

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Alignment is the alignment of tensors in shared memory, in bytes.
const Alignment = 64

func align(n uint64) uint64 { return (n + Alignment - 1) &^ (Alignment - 1) }

// Memory is a mapped memory file. Its owner allocates blocks in it; the other side reads them.
type Memory struct {
	data  []byte
	size  int64
	file  *os.File
	owned bool // blocks are allocated here; otherwise the other side owns the memory

	mu    sync.Mutex // guards what follows
	used  []span     // in the order of their offsets
	touch uint64     // where memory begins that was never used, or was given back to the system
	freed chan struct{}
	gone  bool // it is unmapped when the last block has been freed
}

type span struct{ from, to uint64 }

// spanAt compares where a block begins.
func spanAt(s span, at uint64) int { return cmp.Compare(s.from, at) }

// newMemory makes a memory file of a fixed size, of which no page is in use yet.
// owned says that blocks are allocated by this side.
func newMemory(name string, size int64, owned bool) (*Memory, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err = f.Truncate(size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	var data []byte
	if err == nil {
		data, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Memory{data: data, size: size, file: f, owned: owned, freed: make(chan struct{}, 1)}, nil
}

// openMemory maps a memory file of the server's. Blocks are allocated in one that is owned.
func openMemory(f *os.File, size int64, owned bool) (*Memory, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size <= 0 || info.Size() < size {
		return nil, broken("a memory file of %d bytes, which should have %d", info.Size(), size)
	}
	rights := unix.PROT_READ
	if owned {
		rights |= unix.PROT_WRITE
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), rights, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Memory{data: data, size: size, file: f, owned: owned, freed: make(chan struct{}, 1)}, nil
}

// open returns the memory file for a backend: one that can be read only, or the whole. The caller closes it.
func (m *Memory) open(writable bool) (*os.File, error) {
	mode := os.O_RDONLY
	if writable {
		mode = os.O_RDWR
	}
	return os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(m.file.Fd())), mode, 0)
}

// Size returns the size in bytes.
func (m *Memory) Size() int64 { return m.size }

// Alloc takes a block of n bytes, n above 0. ok is false when there is no room.
func (m *Memory) Alloc(n uint64) (offset uint64, ok bool) { return m.allocBelow(n, math.MaxUint64) }

// allocBelow takes a block that ends at limit or before.
func (m *Memory) allocBelow(n, limit uint64) (offset uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit = min(limit, align(uint64(len(m.data)))); n > limit {
		return 0, false
	}
	n = align(n)
	from := uint64(0)
	for i, s := range m.used {
		if s.from-from >= n && from+n <= limit {
			m.used = slices.Insert(m.used, i, span{from, from + n})
			return from, true
		}
		from = s.to
	}
	if from+n > limit {
		return 0, false
	}
	m.used = append(m.used, span{from, from + n})
	m.touch = max(m.touch, from+n)
	return from, true
}

// Free gives a block back. ok is false when no block begins at offset.
func (m *Memory) Free(offset uint64) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := slices.BinarySearchFunc(m.used, offset, spanAt)
	if !ok {
		return false
	}
	m.used = slices.Delete(m.used, i, i+1)
	if m.owned && m.file != nil {
		m.trim()
	}
	if m.gone && len(m.used) == 0 {
		m.unmap()
	}
	select {
	case m.freed <- struct{}{}:
	default:
	}
	return true
}

// keptBytes is how much memory behind the last block in use is kept for the next one.
const keptBytes = 8 << 20

// trim gives the pages behind the last block in use back to the system, when they are many. The caller holds mu.
func (m *Memory) trim() {
	last := uint64(0)
	if n := len(m.used); n > 0 {
		last = m.used[n-1].to
	}
	if last+keptBytes < m.touch/2 {
		from := int64(last+keptBytes) &^ 4095
		_ = unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, int64(m.touch)-from)
		m.touch = uint64(from)
	}
}

// claim makes a block of the other side's known, so that Close leaves the memory mapped until it is freed. ok is false
// when it overlaps one that is known.
func (m *Memory) claim(from, to uint64) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := slices.BinarySearchFunc(m.used, from, spanAt)
	if found || i > 0 && m.used[i-1].to > from || i < len(m.used) && m.used[i].from < to {
		return false
	}
	m.used = slices.Insert(m.used, i, span{from, to})
	return true
}

// Freed has a token when a block was freed since the last one was taken.
func (m *Memory) Freed() <-chan struct{} { return m.freed }

// Close unmaps the memory once no block is in use, and closes the file.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	m.gone = true
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
	if len(m.used) == 0 {
		m.unmap()
	}
}

func (m *Memory) unmap() {
	_ = unix.Munmap(m.data)
	m.data = nil
}

// bytes returns the bytes of a tensor whose place has been checked.
func (m *Memory) bytes(t *Tensor) []byte {
	if t.Size == 0 {
		return []byte{}
	}
	return m.data[t.Offset : t.Offset+t.Size : t.Offset+t.Size]
}

// check returns why a tensor is not one, or does not stand in the memory. It does not read the memory.
func (m *Memory) check(t *Tensor) error {
	elements, ok := t.Shape.Elements()
	switch {
	case t.Type == edgewise.InvalidType || t.Type > edgewise.BF16:
		return fmt.Errorf("tensor %q: unknown data type %d", t.Name, uint8(t.Type))
	case !ok:
		return fmt.Errorf("tensor %q: shape %v has a negative size or too many elements", t.Name, t.Shape)
	case t.Offset%Alignment != 0:
		return fmt.Errorf("tensor %q: offset %d is not a multiple of %d", t.Name, t.Offset, Alignment)
	case t.Size > uint64(len(m.data)) || t.Offset > uint64(len(m.data))-t.Size:
		return fmt.Errorf("tensor %q: %d bytes at %d are not within the memory of %d bytes", t.Name, t.Size, t.Offset,
			len(m.data))
	}
	size := t.Type.Size()
	if size > 0 && (elements > math.MaxInt64/size || t.Size != uint64(elements*size)) {
		return fmt.Errorf("tensor %q: %v%v takes %d elements of %d bytes, got %d bytes", t.Name, t.Type, t.Shape, elements,
			size, t.Size)
	}
	return nil
}

// tensor returns a checked tensor of the other side's. Strings are copied before their framing is checked, because the
// other side can still write to them; numbers stay where they stand.
func (m *Memory) tensor(t *Tensor) (edgewise.Tensor, error) {
	if err := m.check(t); err != nil {
		return edgewise.Tensor{}, err
	}
	out := edgewise.Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Data: m.bytes(t)}
	if t.Type != edgewise.Bytes {
		return out, nil
	}
	out.Data = append([]byte{}, out.Data...)
	return out, out.Check()
}

// extent returns where the block of a message ends.
func extent(tensors []Tensor) (end uint64) {
	for i := range tensors {
		if t := &tensors[i]; t.Size > 0 {
			end = max(end, t.Offset+t.Size)
		}
	}
	return align(end)
}
