package runner

import "slices"

// maxLoaned bounds the bytes of the blocks that are lent to requests to come, whose clients may be slow, and of those that are kept for
// that: runs must find room beside them. Requests beyond that are copied when they run.
const maxLoaned = 32 << 20

// AllocBody returns n bytes of shared memory, aligned to 64, for inputs of a request to come; see edgewise.BodyAllocator.
func (i *Instance) AllocBody(n int) (data []byte, free func()) {
	b, dropped := i.arena.loan(int64(n))
	i.forget(dropped)
	if b == nil {
		return nil, nil
	}
	return b.data[:n:n], func() { i.arena.repay(b) }
}

// Lent tells whether data stands in memory of Lend, or of Alloc.
func (i *Instance) OwnsBody(data []byte) bool {
	if i.arena.loans.Load() == 0 {
		return false
	}
	b, _ := i.arena.find(data)
	return b != nil
}

// Blocks of loans are kept apart from those of runs. A run takes the shortest block there is and makes it as long as its outputs: among
// them, loans would find none of their length after a while, however many were idle, and make ever more.

// loan takes a block from the shelf, or makes one, and lends it; nil when too much is lent already.
func (a *arena) loan(need int64) (b *block, dropped []uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if need <= 0 {
		return nil, nil
	}
	if i := fitting(a.shelf, need); i >= 0 {
		b = a.shelf[i]
		a.shelf = slices.Delete(a.shelf, i, i+1)
	} else if b, dropped = a.stock(blockSize(need)); b == nil {
		return nil, dropped
	}
	a.loans.Add(1)
	a.lent[b] = struct{}{}
	return b, dropped
}

// stock makes a block for loans, and gives up those on the shelf for it that were not used for the longest time. The caller holds mu.
func (a *arena) stock(size int64) (b *block, dropped []uint32) {
	most := min(maxLoaned, a.max/4)
	for len(a.shelf) > 0 && a.loaned+size > most {
		dropped = append(dropped, a.clear())
	}
	if a.loaned+size > most || size > a.max-a.size {
		return nil, dropped
	}
	a.next++
	b, err := newBlock(a.next, size)
	if err != nil {
		return nil, dropped
	}
	a.size += size
	a.loaned += size
	return b, dropped
}

// clear ends the block that is on the shelf for the longest time, and returns its number. The caller holds mu.
func (a *arena) clear() uint32 {
	b := a.shelf[0]
	a.shelf = a.shelf[1:]
	a.size -= int64(len(b.data))
	a.loaned -= int64(len(b.data))
	b.close()
	return b.id
}

// repay ends a loan.
func (a *arena) repay(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loans.Add(-1)
	delete(a.lent, b)
	if a.max == 0 {
		b.close()
		return
	}
	a.shelf = append(a.shelf, b)
}
