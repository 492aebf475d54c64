package runner

import "slices"

// maxBorrowed bounds the bytes of the blocks for bodies of requests, whose clients may be slow, so that runs find room.
// Bodies beyond the bound are copied when their request runs.
const maxBorrowed = 32 << 20

// AllocBody returns n bytes of shared memory, aligned to 64, for inputs of a later request; nil when none are free. The
// caller calls free once, when no Run reads them; it may come after Close. The child can write to the memory at any time:
// it may hold numbers, and nothing that is checked before it is used.
func (i *Instance) AllocBody(n int) (data []byte, free func()) {
	b, dropped := i.arena.borrow(int64(n))
	i.forget(dropped)
	if b == nil {
		return nil, nil
	}
	return b.data[:n:n], func() { i.arena.returnBody(b) }
}

// OwnsBody tells whether data stands in memory of AllocBody or of Alloc.
func (i *Instance) OwnsBody(data []byte) bool {
	if i.arena.borrowed.Load() == 0 {
		return false
	}
	b, _ := i.arena.find(data)
	return b != nil
}

// Blocks for bodies are kept apart from those of runs. A run picks the shortest block and makes it as long as its
// outputs: bodies would find no block of their length in a common list, and the arena would grow without end.

// borrow returns a block for a body; nil when the bound is reached.
func (a *arena) borrow(need int64) (b *block, dropped []uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if need <= 0 {
		return nil, nil
	}
	if i := fitting(a.idleBodies, need); i >= 0 {
		b = a.idleBodies[i]
		a.idleBodies = slices.Delete(a.idleBodies, i, i+1)
	} else if b, dropped = a.stock(blockSize(need)); b == nil {
		return nil, dropped
	}
	a.borrowed.Add(1)
	a.inUse[b] = struct{}{}
	return b, dropped
}

// stock makes a block for a body. It frees idle ones for it, the longest unused first. The caller holds mu.
func (a *arena) stock(size int64) (b *block, dropped []uint32) {
	most := min(maxBorrowed, a.max/4)
	for len(a.idleBodies) > 0 && a.borrowedBytes+size > most {
		dropped = append(dropped, a.clear())
	}
	if a.borrowedBytes+size > most || size > a.max-a.size {
		return nil, dropped
	}
	a.next++
	b, err := newBlock(a.next, size)
	if err != nil {
		return nil, dropped
	}
	a.size += size
	a.borrowedBytes += size
	return b, dropped
}

// clear frees the block that was idle for the longest time, and returns its number. The caller holds mu.
func (a *arena) clear() uint32 {
	b := a.idleBodies[0]
	a.idleBodies = a.idleBodies[1:]
	a.size -= int64(len(b.data))
	a.borrowedBytes -= int64(len(b.data))
	b.close()
	return b.id
}

// returnBody makes a block idle.
func (a *arena) returnBody(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.borrowed.Add(-1)
	delete(a.inUse, b)
	if a.max == 0 {
		b.close()
		return
	}
	a.idleBodies = append(a.idleBodies, b)
}
