package runner

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBlocksThatNobodyUsesAreGivenUp takes two large blocks, goes on with one of them, and then needs little of it.
func TestBlocksThatNobodyUsesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []uint32
		a := newArena(1<<30, func(dropped []uint32) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, dropped...)
		})
		seen := func() []uint32 {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}
		take := func(need int64) *block {
			b, _, err := a.acquire(need)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		large, other := take(64<<20), take(64<<20)
		a.release(large, 50<<20)
		a.release(other, 50<<20)
		for range 4 {
			time.Sleep(trimInterval * 7 / 10) // never at the moment of a trim
			synctest.Wait()
			a.release(take(64<<20), 64<<20)
		}
		if got, want := seen(), []uint32{large.id}; !slices.Equal(got, want) {
			t.Errorf("the child was told of blocks %v, want %v", got, want)
		}
		for range 4 {
			time.Sleep(trimInterval * 7 / 10) // never at the moment of a trim
			synctest.Wait()
			a.release(take(minBlock), minBlock)
		}
		if got, want := seen(), []uint32{large.id, other.id}; !slices.Equal(got, want) {
			t.Errorf("the child was told of blocks %v in the end, want %v", got, want)
		}
		if a.size != minBlock || a.idleBytes != minBlock {
			t.Errorf("%d bytes, %d of them idle, are left; want %d", a.size, a.idleBytes, minBlock)
		}
		if a.trimming {
			t.Error("a timer goes on while there is nothing to give up")
		}
		a.close()
	})
}
