package blocks

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestABlockHasTheRoomAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<35).Draw(t, "n")
		class := blockClass(n)
		if size := blockSize(class); size < n || n > minBlock && size > n+n/4+1 {
			t.Errorf("%d bytes get a block of %d", n, size)
		}
		if class > 0 && blockSize(class-1) >= n {
			t.Errorf("%d bytes get class %d, the one below would do", n, class)
		}
	})
}

func TestMemoryIsCountedExactly(t *testing.T) {
	m := New(10_000)
	a, b := m.Take(6000), m.Take(4000)
	if a == nil || b == nil || m.InUse() != 10_000 {
		t.Fatalf("%d bytes in use, want 10000", m.InUse())
	}
	if m.Take(1) != nil || m.Adopt(make([]byte, 1)) != nil {
		t.Error("more than the maximum was allocated")
	}
	a.Free()
	if c := m.Adopt(make([]byte, 6000)); c == nil {
		t.Error("freed memory was not allocated again")
	}
	b.Free()
	if n := m.InUse(); n != 6000 {
		t.Errorf("%d bytes in use, want 6000", n)
	}
}

func TestFreeBlocksAreBoundedAndReused(t *testing.T) {
	const max = 64 << 20
	m := New(max)
	var all []*Block
	for b := m.Take(1 << 20); b != nil; b = m.Take(1 << 20) {
		all = append(all, b)
	}
	for _, b := range all {
		b.Free()
	}
	if m.InUse() != 0 || m.Kept() > max/keptShare || m.Kept() < max/keptShare/2 {
		t.Errorf("%d bytes in use, %d kept of %d", m.InUse(), m.Kept(), max)
	}
	kept := m.Kept()
	again := m.Take(1 << 20)
	if m.Kept() >= kept {
		t.Error("a free block was not used again")
	}
	again.Free()
	if m.Kept() != kept {
		t.Errorf("%d bytes are kept, want %d", m.Kept(), kept)
	}
}

func TestUsedAndKeptStayWithinTheBoundTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const max = 1 << 20
		m := New(max)
		var held []*Block
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "free") {
				held[0].Free()
				held = held[1:]
			} else if b := m.Take(rapid.Int64Range(0, max/3).Draw(t, "n")); b != nil {
				held = append(held, b)
			}
			kept := int64(0)
			for c, list := range m.free {
				kept += int64(len(list)) * blockSize(c)
			}
			if kept != m.kept || m.inUse+m.kept > max {
				t.Fatalf("%d in use and %d kept (counted: %d) of %d", m.inUse, kept, m.kept, max)
			}
		}
	})
}

func TestDroppedBlocksAreCollectedBeforeTheBoundIsPassed(t *testing.T) {
	const max, size = 256 << 20, 100 << 20
	m := New(max)
	for range 10 {
		b := m.Take(size)
		m.mu.Lock()
		total := m.inUse + m.kept + m.dropped
		m.mu.Unlock()
		if total > max+releaseBytes {
			t.Fatalf("%d MiB are used, kept and dropped, beside a bound of %d MiB", total>>20, max>>20)
		}
		b.Free()
	}
}

func TestBlocksThatNobodyNeedsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(1 << 30)
		one, two := m.Take(10<<20), m.Take(10<<20)
		one.Free()
		two.Free()
		for range 10 {
			m.Take(10 << 20).Free()
			time.Sleep(trimInterval / 2)
		}
		if kept := m.Kept(); kept == 0 || kept > 13<<20 {
			t.Errorf("%d bytes are kept for one block at a time", kept)
		}
		time.Sleep(3 * trimInterval)
		if kept := m.Kept(); kept != 0 {
			t.Errorf("%d bytes are kept for nobody", kept)
		}
	})
}
