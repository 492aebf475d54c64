package wasm

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A guest has the core of its instance loop for a slice of time. A guest that runs longer is long: it leaves that core
// and continues in turns, on cores that no model wants (decision 0034).

const (
	fairSlice    = 100 * time.Millisecond // how long a guest has its core
	shortSlice   = 2 * time.Millisecond   // the same, while it is set up
	probation    = time.Minute            // of a version whose guest was stopped for its time or its fuel
	probationGap = 9 * time.Millisecond   // between two turns of a long guest on probation, each of leastTurn
	turnLength   = 5 * time.Millisecond   // of a long guest, while others wait for one
	leastTurn    = time.Millisecond       // the least turn of a long guest, also when a model wants its core
	patience     = 20 * time.Millisecond  // after which it has a turn: a twentieth of the time at least
	lookEvery    = time.Millisecond       // how often a waiting guest looks for a core
)

// Cores is the box's budget of cores, which models run on.
type Cores interface {
	// Count returns how many there are.
	Count() int
	// Idle returns how many are free; 0 while a model waits for some.
	Idle() int
	// Leave releases the cores of the run whose context is given, for the rest of that run.
	Leave(ctx context.Context)
}

// turns schedules the long guests of all versions, first come first served: as many at a time as there are cores, less
// one, but at least one.
type turns struct {
	cores Cores
	most  int

	mu      sync.Mutex // guards what follows
	running int
	queue   []*turn
}

// newTurns makes the turns of a box; nil where there is no budget, and then no guest is long.
func newTurns(c Cores) *turns {
	if c == nil {
		return nil
	}
	return &turns{cores: c, most: max(c.Count()-1, 1)}
}

// enter queues for a turn.
func (t *turns) enter(one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, one)
}

// leave takes a guest out of the queue.
func (t *turns) leave(one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = slices.DeleteFunc(t.queue, func(o *turn) bool { return o == one })
}

// admit gives a turn to the first guest in the queue: on an idle core, or when it has waited too long.
func (t *turns) admit(one *turn, overdue bool) bool {
	idle := t.cores.Idle()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue[0] != one || t.running == t.most || !overdue && idle <= t.running {
		return false
	}
	t.queue = t.queue[1:]
	t.running++
	return true
}

// wanted tells whether a turn that has lasted for so long is to end: a model wants the core, or another guest waits.
func (t *turns) wanted(ran time.Duration) bool {
	idle := t.cores.Idle()
	t.mu.Lock()
	defer t.mu.Unlock()
	return idle < t.running || ran >= turnLength && len(t.queue) > 0
}

// end ends a turn.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
}

// turn is the state of one call in turns.
type turn struct {
	slice     time.Duration // how long it has its core
	probation bool
	began     time.Time // the call; of a long one, its turn
	long      bool
	has       bool // a turn
	kept      bool // it holds a token that others wait for, so it continues
}

// share is called now and then while a guest runs. It returns when the guest may continue, or stops it as check does.
func (c *call) share(now time.Time) {
	t := c.p.turns
	if t == nil || c.turn.kept {
		return
	}
	ran := now.Sub(c.turn.began)
	switch {
	case !c.turn.long && ran < c.turn.slice:
	case !c.turn.long:
		c.turn.long = true
		t.cores.Leave(c.Context)
		c.await()
	case ran >= leastTurn && (c.turn.probation || t.wanted(ran)):
		c.rest()
		c.await()
	}
}

// await returns when a long guest has a turn.
func (c *call) await() {
	t := c.p.turns
	if c.turn.has {
		return
	}
	t.enter(&c.turn)
	defer t.leave(&c.turn)
	since := time.Now()
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		now := time.Now()
		c.expire(now)
		waited := now.Sub(since)
		if !(c.turn.probation && waited < probationGap) && t.admit(&c.turn, waited >= patience) {
			c.turn.has, c.turn.began = true, now
			return
		}
		select {
		case <-ticks.C:
		case <-c.Context.Done():
		}
	}
}

// rest ends the turn of a guest, if it has one: it waits for something, or has ended.
func (c *call) rest() {
	if c.turn.has {
		c.turn.has = false
		c.p.turns.end()
	}
}

// resume continues a long guest after a wait that may have given it a core.
func (c *call) resume() {
	if c.turn.long {
		c.p.turns.cores.Leave(c.Context)
		c.await()
	}
}

// suspect puts a version on probation.
func (p *program) suspect() { p.suspected.Store(int64(time.Since(p.epoch) + probation)) }

// share says how a request's guest shares the cores.
func (p *program) share(t *turn) {
	t.slice, t.probation = fairSlice, int64(time.Since(p.epoch)) < p.suspected.Load()
	if t.probation {
		t.slice = leastTurn
	}
}
