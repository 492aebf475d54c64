package sched

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// elastic is an instance that takes part of the time when it is a solo run, and makes use of that.
type elastic struct {
	doubler
	takes, solo time.Duration
	idle        bool // it makes no use of it

	mu       sync.Mutex
	extended []bool // of each run
}

func (e *elastic) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	alone := options.Solo
	e.mu.Lock()
	e.extended = append(e.extended, alone)
	e.mu.Unlock()
	if alone && !e.idle {
		time.Sleep(e.solo)
	} else {
		time.Sleep(e.takes)
	}
	r, err := e.doubler.Run(ctx, in, want, options)
	if err == nil {
		r.Wide = alone && !e.idle
	}
	return r, err
}

// since returns how many runs there were from one on, and how many of them were extended.
func (e *elastic) since(from int) (runs, extended int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.extended[from:] {
		if t {
			extended++
		}
	}
	return len(e.extended) - from, extended
}

// idle returns how many cores nobody has, when all have done what they can.
func idle(c *cores.Budget) int {
	synctest.Wait()
	return c.Idle()
}

// ask sends requests one after the other.
func ask(t *testing.T, s *Scheduler, n int) {
	t.Helper()
	for range n {
		r, err := s.Infer(t.Context(), row(1))
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
}

// trialRuns is how many solo runs a trial takes, the first ones included that have to pass before a run counts as
// alone.
const trialRuns = cores.SoloAfter + 2*(trialFirst+trialEach) - 1

func TestSoloRunsAreExtendedWhereThatPays(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name        string
		takes, solo time.Duration
		idle        bool
		threads     int
		runs        int // after the trial
		extended    int // of them
	}{
		{"twice as fast", 4 * ms, 2 * ms, false, 2, 100, 100},
		{"a little faster", 4 * ms, 3800 * time.Microsecond, false, 2, firstDoubt, 0},
		{"slower", 4 * ms, 6 * ms, false, 2, firstDoubt, 0},
		{"too short to ask", 900 * time.Microsecond, 100 * time.Microsecond, false, 2, 100, 0},
		{"half a second", 500 * ms, 300 * ms, false, 2, 100, 100},
		{"too long to ask", 1200 * ms, 600 * ms, false, 2, 100, 0},
		{"no threads for it", 4 * ms, 2 * ms, false, 0, 100, 0},
		{
			"an instance that cannot", 4 * ms, 2 * ms, true, 2, mostRefused + 200,
			mostRefused - (trialRuns - cores.SoloAfter),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &elastic{takes: test.takes, solo: test.solo, idle: test.idle}
				s := schedulerOf(
					e, model(),
					Config{Instances: 2, Cores: cores.New(2), Threads: 1, SoloThreads: test.threads, MaxQueue: 10},
				)
				defer s.Close()
				ask(t, s, cores.SoloAfter)
				if _, extended := e.since(0); extended != 0 {
					t.Errorf("%d of the first %d runs were extended", extended, cores.SoloAfter)
				}
				ask(t, s, trialRuns-cores.SoloAfter)
				before, _ := e.since(0)
				ask(t, s, test.runs)
				if runs, extended := e.since(before); runs != test.runs || extended != test.extended {
					t.Errorf(
						"%d of %d runs were extended, want %d of %d", extended, runs, test.extended, test.runs,
					)
				}
			})
		})
	}
}

func TestAVerdictIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &elastic{takes: 4 * time.Millisecond, solo: 6 * time.Millisecond}
		s := schedulerOf(
			e, model(), Config{Instances: 1, Cores: cores.New(2), Threads: 1, SoloThreads: 2, MaxQueue: 10},
		)
		defer s.Close()
		ask(t, s, trialRuns)
		const trial, each = 2*(trialFirst+trialEach) - 1, trialFirst + trialEach // runs of a later trial, and those of them that are solo
		for _, pause := range []int{firstDoubt, 2 * firstDoubt, 4 * firstDoubt, rejectedRuns, rejectedRuns} {
			before, _ := e.since(0)
			ask(t, s, pause+trial)
			if _, extended := e.since(before); extended != each {
				t.Errorf(
					"%d of the %d runs after the verdict were extended, want the %d of the next trial",
					extended, pause+trial, each,
				)
			}
		}
		ask(t, s, rejectedRuns)
		before, _ := e.since(0)
		e.solo = 2 * time.Millisecond // the machine has become quiet
		ask(t, s, trialRuns-cores.SoloAfter+100)
		if _, extended := e.since(before); extended < 100 {
			t.Errorf("%d runs were extended after another trial", extended)
		}
	})
}

// TestConcurrentRunsEndExtendedOnes lets a second client come while an extended run is on its way: it has a core at once, and the next
// runs have one core each, until one client has been alone again for a while.
func TestConcurrentRunsEndExtendedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := cores.New(2)
		e := &elastic{takes: 4 * time.Millisecond, solo: 2 * time.Millisecond}
		s := schedulerOf(e, model(), Config{Instances: 2, Cores: budget, Threads: 1, SoloThreads: 2, MaxQueue: 10})
		defer s.Close()
		ask(t, s, trialRuns+10)
		before, _ := e.since(0)
		var clients sync.WaitGroup
		clients.Go(func() { ask(t, s, 1) })
		time.Sleep(time.Millisecond)
		if n := idle(budget); n != 0 {
			t.Errorf("%d cores are free during an extended run", n)
		}
		start := time.Now()
		clients.Go(func() { ask(t, s, 1) })
		clients.Wait()
		if took := time.Since(start); took != 4*time.Millisecond { // a run on one core
			t.Errorf("who came meanwhile had its answer after %v", took)
		}
		if runs, extended := e.since(before); runs != 2 || extended != 1 {
			t.Errorf("%d of %d runs were extended, want 1 of 2", extended, runs)
		}
		if n := idle(budget); n != 2 {
			t.Errorf("%d cores are free afterwards", n)
		}
		ask(t, s, cores.SoloAfter-1)
		if _, extended := e.since(before); extended != 1 {
			t.Errorf("%d runs were extended so soon after concurrent runs", extended)
		}
		ask(t, s, 10)
		if _, extended := e.since(before); extended < 10 {
			t.Errorf("%d runs were extended, want 10", extended)
		}
	})
}

// TestRunsOfOtherVersionsAreConcurrent runs two versions beside each other: neither is alone.
func TestRunsOfOtherVersionsAreConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := cores.New(2)
		var clients sync.WaitGroup
		var list []*elastic
		for range 2 {
			e := &elastic{takes: 4 * time.Millisecond, solo: 2 * time.Millisecond}
			s := schedulerOf(e, model(), Config{Instances: 1, Cores: budget, Threads: 1, SoloThreads: 2, MaxQueue: 10})
			defer s.Close()
			list = append(list, e)
			clients.Go(func() { ask(t, s, 100) })
		}
		clients.Wait()
		for _, e := range list {
			if runs, extended := e.since(0); runs != 100 || extended > 0 {
				t.Errorf("%d of %d runs were extended", extended, runs)
			}
		}
	})
}

// TestAnExtendedRunThatFailsReleasesItsCores also runs batches again request by request.
func TestAnExtendedRunThatFailsReleasesItsCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := cores.New(4)
		e := &elastic{takes: 4 * time.Millisecond, solo: 2 * time.Millisecond}
		m := model()
		m.DynamicBatching = &edgewise.DynamicBatching{MaxQueueDelay: 1000}
		s := schedulerOf(e, m, Config{Instances: 1, Cores: budget, Threads: 1, SoloThreads: 4, MaxQueue: 10})
		defer s.Close()
		ask(t, s, trialRuns+10)
		for _, panics := range []bool{false, true} {
			e.fail, e.panics = edgewise.Errorf("test", edgewise.Internal, "no"), panics
			var clients sync.WaitGroup
			for range 3 {
				clients.Go(func() {
					if _, err := s.Infer(t.Context(), row(1)); edgewise.KindOf(err) != edgewise.Internal {
						t.Error(err)
					}
				})
			}
			clients.Wait()
			if n := idle(budget); n != 4 {
				t.Errorf("%d of 4 cores are free afterwards", n)
			}
		}
	})
}
