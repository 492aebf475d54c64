package store

import (
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// budget bounds the uploads in flight: their number, and the bytes that they may write.
type budget struct {
	root    layout
	disk    disk.Disk
	reserve int64
	uploads int // at most so many in flight

	mu       sync.Mutex
	inFlight int
	promised int64 // declared by uploads in flight and not yet written, bytes
}

// enter admits an upload of size declared bytes, -1 when it declares none.
func (b *budget) enter(op string, size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight >= b.uploads {
		return edgewise.Errorf(op, edgewise.Busy, "%d uploads are in flight: at most %d are allowed", b.inFlight, b.uploads)
	}
	if err := b.room(op, max(size, 0)); err != nil {
		return err
	}
	b.inFlight++
	b.promised += max(size, 0)
	return nil
}

// Room tells whether an upload of size bytes could begin now. It reserves nothing: Begin decides. Kinds of error:
// Exhausted.
func (s *Store) Room(size int64) error { return s.budget.check("store.Room", size) }

// leave ends an upload that had promised bytes still to write.
func (b *budget) leave(promised int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.promised -= promised
}

// spend subtracts n bytes, which are on the disk now, from those promised.
func (b *budget) spend(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.promised -= n
}

// check tells whether all that was promised still fits, and extra bytes beside it.
func (b *budget) check(op string, extra int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(op, extra)
}

// room tells whether extra bytes fit beside what was promised without touching the reserve. b.mu is held.
func (b *budget) room(op string, extra int64) error {
	_, free, err := b.disk.Space(string(b.root))
	if err != nil {
		return fail(op, edgewise.ModelID{}, "asking for the free room of the disk", err)
	}
	if need := b.promised + extra; free-need < b.reserve {
		return edgewise.Errorf(op, edgewise.Exhausted,
			"the disk is too full: uploads need %d bytes, %d are free, %d of them are reserved", need, free, b.reserve)
	}
	return nil
}
