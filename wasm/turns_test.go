package wasm

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// budget is a box's cores, of which some are idle.
type budget struct {
	count int
	idle  atomic.Int32
	left  atomic.Int32
}

func (b *budget) Count() int            { return b.count }
func (b *budget) Idle() int             { return int(b.idle.Load()) }
func (b *budget) Leave(context.Context) { b.left.Add(1) }

// turnsOf makes a box with cores, of which some are idle.
func turnsOf(count, idle int) (*program, *budget) {
	b := &budget{count: count}
	b.idle.Store(int32(idle))
	return &program{turns: newTurns(b), epoch: time.Now()}, b
}

// guestWork computes for a while, in steps of a hundred microseconds, and returns how long that took in all.
func guestWork(c *call, work time.Duration) time.Duration {
	start := time.Now()
	const each = 100 * time.Microsecond
	for ; work > 0; work -= each {
		time.Sleep(each)
		c.share(time.Now())
	}
	return time.Since(start)
}

// begun makes a call that has its core for a time.
func begun(ctx context.Context, p *program, slice, timeout time.Duration) *call {
	c := begin(ctx, p, timeout, never)
	c.turn.slice = slice
	return c
}

func TestALongGuestGoesOnOnIdleCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := turnsOf(2, 1)
		c := begun(t.Context(), p, shortSlice, time.Minute)
		if took := guestWork(c, shortSlice-200*time.Microsecond); took > shortSlice || b.left.Load() != 0 {
			t.Errorf("a short guest took %v and left its core %d times", took, b.left.Load())
		}
		if took := guestWork(c, time.Second); took > 1010*time.Millisecond || b.left.Load() != 1 {
			t.Errorf("a second of work took %v on an idle core; it left its core %d times", took, b.left.Load())
		}
		if p.turns.running != 1 {
			t.Error("it has no turn")
		}
		c.rest()
		c.rest()
		if p.turns.running != 0 {
			t.Error("its turn has not ended")
		}
	})
}

// TestModelsGoBeforeALongGuest has models on all cores: a guest is left a twentieth of the time, and all of it when
// they are done.
func TestModelsGoBeforeALongGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := turnsOf(2, 0)
		c := begun(t.Context(), p, shortSlice, time.Hour)
		if took := guestWork(c, 102*time.Millisecond).Seconds(); took < 1.8 || took > 2.5 {
			t.Errorf("100 ms of work took %.2f s: want a twentieth of the time", took)
		}
		b.idle.Store(2)
		if took := guestWork(c, 100*time.Millisecond); took > 125*time.Millisecond {
			t.Errorf("100 ms of work took %v on idle cores", took)
		}
		b.idle.Store(0)
		start := time.Now()
		done := make(chan struct{})
		go func() {
			guestWork(c, 10*time.Millisecond)
			close(done)
		}()
		for p.turns.idle() {
			time.Sleep(100 * time.Microsecond)
		}
		if took := time.Since(start); took > 2*leastTurn {
			t.Errorf("a model waited %v for its core", took)
		}
		<-done
	})
}

// idle tells whether no guest waits for a turn.
func (t *turns) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) == 0
}

// TestLongGuestsTakeTurns has two guests and room for one.
func TestLongGuestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := turnsOf(2, 2)
		var took [2]time.Duration
		done := make(chan int)
		for i := range took {
			go func() {
				c := begun(t.Context(), p, shortSlice, time.Hour)
				took[i] = guestWork(c, 200*time.Millisecond)
				c.rest()
				done <- i
			}()
		}
		<-done
		<-done
		for i, d := range took {
			if d < 300*time.Millisecond || d > 500*time.Millisecond {
				t.Errorf("guest %d took %v for 200 ms of work beside another one: %v", i, d, took)
			}
		}
	})
}

// TestAGuestThatWaitsIsStopped holds the deadline, and what the client does, while a guest has no turn.
func TestAGuestThatWaitsIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := turnsOf(1, 0)
		p.turns.running = 1 // another one has it
		stopped := func(ctx context.Context, timeout time.Duration) (kind edgewise.Kind, took time.Duration) {
			start := time.Now()
			defer func() { kind, took = edgewise.KindOf(recover().(*ending)), time.Since(start) }()
			guestWork(begun(ctx, p, shortSlice, timeout), time.Minute)
			return
		}
		if kind, took := stopped(t.Context(), 50*time.Millisecond); kind != edgewise.Guest || took > 52*time.Millisecond {
			t.Errorf("%v after %v", kind, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if kind, took := stopped(ctx, time.Minute); kind != edgewise.Deadline || took > 31*time.Millisecond {
			t.Errorf("%v after %v", kind, took)
		}
		if len(p.turns.queue) != 0 {
			t.Error("they still wait")
		}
	})
}

// TestAVersionOnProbation has a tenth of the time for its long guests, for a while.
func TestAVersionOnProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := turnsOf(2, 2)
		work := func() time.Duration {
			c := begin(t.Context(), p, time.Hour, never)
			p.share(&c.turn)
			defer c.rest()
			return guestWork(c, 102*time.Millisecond)
		}
		if took := work(); took > 105*time.Millisecond {
			t.Errorf("100 ms of work of a new version took %v", took)
		}
		p.suspect()
		if took := work(); took < 900*time.Millisecond || took > 1200*time.Millisecond {
			t.Errorf("100 ms of work on probation took %v: want a tenth of the time", took)
		}
		time.Sleep(probation)
		if took := work(); took > 105*time.Millisecond {
			t.Errorf("100 ms of work after it took %v", took)
		}
	})
}

// TestTurnsEndWithTheRun runs a real guest for ever.
func TestTurnsEndWithTheRun(t *testing.T) {
	b := &budget{count: 2}
	b.idle.Store(2)
	s := load(t, Config{RunTimeout: 300 * time.Millisecond, Pause: -1, Cores: b}, model(),
		prelude+`(func (export "edgewise_process") (param i32) (result i32) loop $l br $l end i32.const 0)`)
	for range 2 {
		if _, err := s.Run(t.Context(), floats(3), []string{"x"}, edgewise.RunOptions{}); edgewise.KindOf(err) != edgewise.Guest {
			t.Fatal(err)
		}
	}
	settled(t, s)
	if left := b.left.Load(); left < 2 {
		t.Errorf("it left its core %d times", left)
	}
	if n := s.p.turns.running; n != 0 {
		t.Errorf("%d turns have not ended", n)
	}
	var next turn
	if s.p.share(&next); !next.probation || next.slice != leastTurn {
		t.Error("what ran for ever is not held against it")
	}
	trap := load(t, Config{Pause: -1, Cores: b}, model(), prelude+`(func (export "edgewise_process") (param i32) (result i32) unreachable)`)
	if _, err := trap.Run(t.Context(), floats(3), []string{"x"}, edgewise.RunOptions{}); edgewise.KindOf(err) != edgewise.Guest {
		t.Fatal(err)
	}
	if trap.p.share(&next); next.probation {
		t.Error("a trap, which took no time, is held against a version")
	}
}
