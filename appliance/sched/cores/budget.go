// Package cores shares the processor cores of the machine between the runs of all versions: a run holds a lease on as
// many cores as it has threads.
package cores

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Budget is the cores that the instance loops of all versions share: a batch runs only while its loop holds as many
// cores as the run has threads. So the sum of running loops times threads never exceeds the cores, however many models
// are loaded.
//
// It is fair between versions: free cores go to the waiting version that has used the least core time. A version that
// was idle begins with what the version served last had used: it neither saves up nor pays for the past. A version that
// needs more cores than are free holds the others back until they are free, or it would wait for ever. Within a version
// priorities are strict: the batch is chosen when the cores are granted, not before.
type Budget struct {
	mu       sync.Mutex // guards the fields below, and all accounts and leases
	total    int
	free     int
	clock    time.Duration // core time that the version served last had used then
	solo     int           // consecutive runs without a concurrent one
	ended    atomic.Int64  // cores that are held and whose run has ended
	extended *Lease        // the lease that was extended for a solo run; nil: none
	waiting  []*Lease      // in order of arrival
	ledger   ledger
	pinning  pinning
}

// New makes a budget of n cores, at least 1. Where numbers are those of n cores, more than one, in the order of
// preference, a lease on one core names a core that no other such lease has.
func New(n int, numbers ...int) *Budget {
	b := &Budget{total: max(n, 1), free: max(n, 1)}
	if len(numbers) == n && n > 1 {
		b.pinning = pinning{numbers, make([]bool, n)}
	}
	return b
}

// Count returns how many cores the budget has.
func (b *Budget) Count() int { return b.total }

// Idle returns how many cores are free, 0 while a lease waits for some.
func (b *Budget) Idle() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		return 0
	}
	return b.free
}

// Open begins an account for the runs of a version, of so many threads; nil for a nil budget and for runs without threads.
// A run never needs more cores than the budget has.
func (b *Budget) Open(of edgewise.ModelID, threads int) *Account {
	if b == nil || threads < 1 {
		return nil
	}
	return &Account{model: of, budget: b, width: min(threads, b.total)}
}

// Account is the core time that one version has used. A nil account is that of a version that needs no cores.
type Account struct {
	model  edgewise.ModelID
	budget *Budget
	width  int           // cores of one run
	used   time.Duration // core time, moved up to the budget's clock after idling
	last   time.Duration // core time of the last run: what the next one is expected to take
	active int           // leases that are held or waited for
}

// enter counts a lease as active. The budget's mu is held, as below.
func (a *Account) enter() {
	if a.active == 0 {
		a.used = max(a.used, a.budget.clock)
	}
	a.active++
}

func (b *Budget) grant(l *Lease) {
	a := l.account
	if b.concurrent(l) {
		b.solo = 0
	}
	b.free -= a.width
	b.clock = max(b.clock, a.used)
	if a.width == 1 {
		l.core = b.pinning.take()
	}
	l.held, l.since = true, time.Now()
	b.ledger.begin(l)
	l.charge()
}

func (b *Budget) release(l *Lease) {
	l.settle()
	l.restart()
	b.ledger.end(l)
	b.pinning.give(l.core)
	l.held, l.core = false, 0
	l.account.active--
	b.free += l.account.width
	b.serve()
}

// serve grants free cores to waiting leases, first to the version that has used least.
func (b *Budget) serve() {
	for len(b.waiting) > 0 {
		next := b.next()
		l := b.waiting[next]
		if l.account.width > b.free && b.extended != nil {
			b.shrink(b.extended)
		}
		if l.account.width > b.free {
			return
		}
		b.waiting = append(b.waiting[:next], b.waiting[next+1:]...)
		b.grant(l)
		l.granted <- struct{}{}
	}
}

// next is the index of the waiting lease whose version has used least.
func (b *Budget) next() int {
	next := 0
	for i, l := range b.waiting {
		if l.account.used < b.waiting[next].account.used {
			next = i
		}
	}
	return next
}

// Solo runs: a model that one client calls, one request after the other, leaves all cores but one idle. A run that has
// the machine to itself may hold more cores than others.

// SoloAfter is how many consecutive runs without a concurrent one make the next run count as solo.
const SoloAfter = 8

// isSolo tells whether no other lease is held for a run or waited for, and none was lately.
func (b *Budget) isSolo(l *Lease) bool { return b.solo >= SoloAfter && !b.concurrent(l) }

// concurrent tells whether other leases than l have a run or wait.
func (b *Budget) concurrent(l *Lease) bool {
	busy := b.total - b.free - int(b.ended.Load())
	if l.held && !l.ended {
		busy -= l.account.width + l.more
	}
	return busy > 0 || len(b.waiting) > 0
}

// shrink releases the cores that Extend granted: at the end of the run, or sooner when another lease waits for cores.
// The run keeps its threads, but they have a lower priority than those of other runs.
func (b *Budget) shrink(l *Lease) {
	if l.more == 0 {
		return
	}
	l.account.used += time.Since(l.since) * time.Duration(l.more)
	b.free += l.more
	l.more, b.extended = 0, nil
}
