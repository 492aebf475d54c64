package manager

import (
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
