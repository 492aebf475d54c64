package runner

// maxLoaned bounds the bytes of the blocks that are lent to requests to come, whose clients may be slow: runs must find room beside them.
// Requests beyond that are copied when they run. An instance keeps as much until it is closed.
const maxLoaned = 32 << 20

// Lend returns n bytes of shared memory, aligned to 64, for inputs of a request to come; see edgewise.Lender.
func (i *Instance) Lend(n int) (data []byte, free func()) {
	b, dropped := i.arena.loan(int64(n))
	i.forget(dropped)
	if b == nil {
		return nil, nil
	}
	return b.data[:n:n], func() { i.arena.repay(b) }
}

// Lent tells whether data stands in memory of Lend, or of Alloc.
func (i *Instance) Lent(data []byte) bool {
	if i.arena.loans.Load() == 0 {
		return false
	}
	b, _ := i.arena.find(data)
	return b != nil
}

// loan takes a block and lends it; nil when there is none, or too much is lent already.
func (a *arena) loan(need int64) (b *block, dropped []uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := blockSize(need)
	if need <= 0 || a.loaned+size > min(maxLoaned, a.max/4) {
		return nil, nil
	}
	b, dropped, err := a.draw(need, size)
	if err != nil {
		return nil, dropped
	}
	a.loaned += int64(len(b.data))
	a.loans.Add(1)
	a.lent[b] = struct{}{}
	return b, dropped
}

// repay ends a loan.
func (a *arena) repay(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loaned -= int64(len(b.data))
	a.loans.Add(-1)
	delete(a.lent, b)
	a.keep(b)
}
