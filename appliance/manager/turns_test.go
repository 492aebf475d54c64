package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// askAtOnce sends a request to each model at the same time and returns after how long the last answer came.
func (h *crowd) askAtOnce(t *testing.T, names ...string) time.Duration {
	t.Helper()
	begin := time.Now()
	var clients sync.WaitGroup
	for _, name := range names {
		clients.Go(func() {
			if err := h.ask(t, name); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // they come in their order
	}
	clients.Wait()
	return time.Since(begin)
}

// allRest has all models of a crowd give their memory up.
func (h *crowd) allRest(t *testing.T) {
	t.Helper()
	for range h.sleepers {
		h.relieve(true)
		synctest.Wait()
	}
	if got := h.awake(); got != "" {
		t.Fatalf("%s are awake", got)
	}
}

func TestNoMoreProcessesAreStartedAtOnceThanLoadsAllowed(t *testing.T) {
	for _, c := range []struct {
		name        string
		concurrency int
		least, most time.Duration
	}{
		{"one", 1, 3 * time.Second, 3100 * time.Millisecond},
		{"three", 3, time.Second, 1100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newCrowd(t, "a10", "b10", "c10")
				h.loads = make(chan struct{}, c.concurrency)
				h.allRest(t)
				if took := h.askAtOnce(t, "a10", "b10", "c10"); took < c.least || took > c.most {
					t.Errorf("three starts of a second took %v", took)
				}
			})
		})
	}
}

// TestAVersionThatWaitsForItsTurnLeavesTheMemoryToOthers asks for two models that need the memory of the others, one after
// the other: the second gets none before the first has been started.
func TestAVersionThatWaitsForItsTurnLeavesTheMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a40", "b40", "c40", "d40") // c and d are awake
		var clients sync.WaitGroup
		for _, name := range []string{"a40", "b40"} {
			clients.Go(func() {
				if err := h.ask(t, name); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		if got := h.awake(); got != "d40" {
			t.Errorf("%q are awake while a40 is started and b40 waits, want d40", got)
		}
		clients.Wait()
		if got := h.awake(); got != "a40 b40" {
			t.Errorf("then %q are awake", got)
		}
	})
}

func TestAStartThatTakesLongDoesNotKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a10", "b10")
		h.sleepers["a10"].long = time.Minute
		h.allRest(t)
		var slow sync.WaitGroup
		slow.Go(func() { _ = h.ask(t, "a10") })
		synctest.Wait()
		if took := h.askAtOnce(t, "b10"); took < longStart || took > longStart+2*time.Second {
			t.Errorf("b10 answered after %v, while a10 takes a minute to start", took)
		}
		slow.Wait()
	})
}

// TestRequestsToOthersGoOnWhileAProcessIsStarted starts one that takes the memory of another, and a third answers meanwhile.
func TestRequestsToOthersGoOnWhileAProcessIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a40", "b40", "c40") // b and c are awake
		if err := h.ask(t, "c40"); err != nil {
			t.Error(err)
		}
		var starts sync.WaitGroup
		starts.Go(func() { _ = h.ask(t, "a40") })
		synctest.Wait()
		for range 20 {
			begin := time.Now()
			if err := h.ask(t, "c40"); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 20*time.Millisecond {
				t.Errorf("a request to c40 took %v while a40 was started", took)
			}
		}
		if got := h.awake(); got != "c40" {
			t.Errorf("%q are awake: a40 was not being started all the time", got)
		}
		starts.Wait()
	})
}

// TestAVersionInUseRestsLast has a run in the version that is asked for least.
func TestAVersionInUseRestsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a30", "b30", "c30")
		for range 3 {
			for _, name := range []string{"b30", "c30"} {
				if err := h.ask(t, name); err != nil {
					t.Error(err)
				}
			}
		}
		s := h.sleepers["a30"]
		s.mu.Lock()
		s.running.Add(1)
		s.runs++
		s.mu.Unlock()
		h.load(t, "d30")
		if got := h.awake(); got != "a30 c30 d30" {
			t.Errorf("%q are awake, want a30, which has a run", got)
		}
		s.mu.Lock()
		s.runs--
		s.running.Done()
		s.mu.Unlock()
		if err := h.ask(t, "b30"); err != nil {
			t.Error(err)
		}
		if got := h.awake(); got != "b30 c30 d30" {
			t.Errorf("%q are awake, want a30 to rest after its run", got)
		}
	})
}

// TestStartsKeepTheOrderOfTheirRequests asks for twelve models that rest, one after the other.
func TestStartsKeepTheOrderOfTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := strings.Fields("l5 a5 k5 b5 j5 c5 i5 d5 h5 e5 g5 f5")
		h := newCrowd(t, names...)
		h.allRest(t)
		var mu sync.Mutex
		var answered []string
		var clients sync.WaitGroup
		for _, name := range names {
			clients.Go(func() {
				if err := h.ask(t, name); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				answered = append(answered, name)
			})
			synctest.Wait()
		}
		clients.Wait()
		if !slices.Equal(answered, names) {
			t.Errorf("answered in the order %v, asked in %v", answered, names)
		}
	})
}

// TestALargeModelGetsTheMemoryThatIsGivenUpNext asks for a small model while a large one waits for the memory of two in
// use.
func TestALargeModelGetsTheMemoryThatIsGivenUpNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a60", "b10", "c10", "d10", "e80")
		for h.awake() != "b10 c10 d10" { // what was loaded first
			for _, name := range []string{"b10", "c10", "d10"} {
				if err := h.ask(t, name); err != nil {
					t.Fatal(err)
				}
			}
		}
		release := h.hold("b10", "c10")
		var answered [2]time.Time
		var clients sync.WaitGroup
		for i, name := range []string{"e80", "d10"} {
			clients.Go(func() {
				if err := h.ask(t, name); err != nil {
					t.Error(err)
				}
				answered[i] = time.Now()
			})
			time.Sleep(time.Second)
		}
		if got := h.awake(); got != "b10" && got != "c10" { // the other one ends after its run
			t.Errorf("%q are awake while e80 waits for memory", got)
		}
		release()
		clients.Wait()
		if !answered[0].Before(answered[1]) {
			t.Error("d10 was started before e80, which was asked for first")
		}
	})
}

// TestWhoStopsWaitingGivesItsTurnToTheNext cancels the wait of a model for memory.
func TestWhoStopsWaitingGivesItsTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a60", "b10", "c60")
		h.allRest(t)
		if err := h.ask(t, "a60"); err != nil {
			t.Fatal(err)
		}
		release := h.hold("a60")
		defer release()
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		waits.Go(func() {
			if err := h.sleepers["c60"].claims.Take(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("who does not wait any more is told %v", err)
			}
		})
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, cancel)
		if took := h.askAtOnce(t, "b10"); took < 2*time.Second || took > 2100*time.Millisecond {
			t.Errorf("b10 answered after %v: want a second after c60 has stopped waiting", took)
		}
		waits.Wait()
	})
}

// hold begins a run in each of some models, and returns what ends them.
func (h *crowd) hold(names ...string) (release func()) {
	count := func(n int) {
		for _, name := range names {
			s := h.sleepers[name]
			s.mu.Lock()
			s.running.Add(n)
			s.runs += n
			s.mu.Unlock()
		}
	}
	count(1)
	return func() { count(-1) }
}
