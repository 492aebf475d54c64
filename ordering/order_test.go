package ordering

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlacesComeInOrderWhateverTheGoroutinesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order Order
		var mu sync.Mutex
		var got []int
		var all sync.WaitGroup
		for i := range 500 {
			place := order.NewPlace()
			place.Take()
			all.Go(func() {
				defer place.Leave()
				time.Sleep(rand.N(time.Millisecond)) // virtual: it decides which goroutine is first
				if i%7 == 3 {
					return // ended without having waited
				}
				if err := place.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				got = append(got, i)
				mu.Unlock()
				place.Leave()
				time.Sleep(rand.N(time.Millisecond))
			})
		}
		all.Wait()
		for i := 1; i < len(got); i++ {
			if got[i] < got[i-1] {
				t.Fatalf("%d came behind %d", got[i-1], got[i])
			}
		}
		if order.first != nil || order.last != nil {
			t.Error("places are left in the order")
		}
	})
}

func TestAPlaceThatEndedDoesNotLetOthersOvertakeTheOneBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order Order
		first, second, third := order.NewPlace(), order.NewPlace(), order.NewPlace()
		first.Take()
		second.Take()
		third.Take()
		second.Leave()
		came := false
		go func() {
			_ = third.Wait(t.Context())
			came = true
		}()
		synctest.Wait()
		if came {
			t.Fatal("the third came before the first had left")
		}
		first.Leave()
		synctest.Wait()
		if !came {
			t.Fatal("the third waits for nobody")
		}
		third.Leave()
	})
}

func TestAPlaceIsTakenWhenItsRequestHasArrivedNotWhenItWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order Order
		slow, quick := order.NewPlace(), order.NewPlace()
		quick.Take()
		if err := quick.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		quick.Leave()
		if err := slow.Wait(t.Context()); err != nil { // takes it
			t.Fatal(err)
		}
		slow.Leave()
		slow.Take()
		if order.first != nil {
			t.Error("a place was taken after it had been left")
		}
	})
}

func TestWhoWaitsForAPlaceGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order Order
		first, second, third := order.NewPlace(), order.NewPlace(), order.NewPlace()
		first.Take()
		second.Take()
		third.Take()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := second.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		second.Leave()
		first.Leave()
		if err := third.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestQueuedReachesWhoWantsToKnow(t *testing.T) {
	n := 0
	ctx := WithQueued(t.Context(), func() { n++ })
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	Queued(inner)
	Queued(WithQueued(ctx, nil))
	Queued(t.Context())
	if n != 1 {
		t.Errorf("said %d times", n)
	}
}
