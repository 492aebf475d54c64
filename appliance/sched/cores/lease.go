package cores

import (
	"context"
	"sync/atomic"
	"time"
)

// Lease is one instance loop's claim on cores of the budget. Its owner alone calls its methods; a run that the owner
// started calls Suspend and Budget.Leave with the context of Lease.Context.
type Lease struct {
	account   *Account
	held      bool
	since     time.Time
	core      int           // counted from 1, that no other lease has while it is held; 0: none
	more      int           // cores beside the account's width, until the end of a solo run
	ended     bool          // the run has ended, and its answers may have left
	charged   time.Duration // in advance
	granted   chan struct{} // one token: the wait is over
	suspended int           // calls of a guest to other models for which the cores are released
	requests  atomic.Int32  // of the run in progress
	number    uint64        // of that run, in the order in which runs of the budget begin
	place     int           // in the ledger's list of those that hold cores
}

// Lease makes a lease on the cores of one run, which it does not hold yet.
func (a *Account) Lease() *Lease { return &Lease{account: a, granted: make(chan struct{}, 1)} }

// Runs notes how many requests the run has that is about to begin.
func (l *Lease) Runs(requests int) {
	if l.account != nil {
		l.requests.Store(int32(requests))
	}
}

// Core is the number, counted from 1, of the core that the lease has for itself; 0: none.
func (l *Lease) Core() int { return l.core }

// Try takes the cores and tells whether the lease has them; it does not wait.
func (l *Lease) Try() bool {
	if l.account == nil || l.held {
		l.restart()
		return true
	}
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || b.free < l.account.width {
		return false
	}
	l.account.enter()
	b.grant(l)
	return true
}

// Wait returns when the lease has the cores. Other leases never hold them for longer than a run.
func (l *Lease) Wait() {
	b := l.account.budget
	b.mu.Lock()
	l.account.enter()
	if b.concurrent(l) {
		b.solo = 0
	}
	b.waiting = append(b.waiting, l)
	b.serve()
	b.mu.Unlock()
	<-l.granted
}

// End notes that the run on the cores has ended, before its answers leave, and releases what Extend took: the next
// request may be on another instance loop before this one calls Pass, and is not concurrent with it.
func (l *Lease) End() {
	if l.account == nil || !l.held || l.ended {
		return
	}
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.solo++; b.concurrent(l) {
		b.solo = 0
	}
	l.ended = true
	b.ended.Add(int64(l.account.width))
	if l.more > 0 {
		b.shrink(l)
		b.serve()
	}
}

// restart notes that another run begins on cores whose run has ended.
func (l *Lease) restart() {
	if l.ended {
		l.ended = false
		l.account.budget.ended.Add(-int64(l.account.width))
	}
}

// Pass ends a run: the lease keeps the cores for the next one, unless a version waits for cores that has used less.
// Without keeping them, a version with one loop would miss a grant whenever its run and another one end together.
func (l *Lease) Pass() {
	if l.account == nil || !l.held {
		return
	}
	a, b := l.account, l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.last = l.settle()
	if len(b.waiting) > 0 && b.waiting[b.next()].account.used < a.used {
		b.release(l)
		return
	}
	l.charge()
}

// Release gives the cores back, if the lease has them.
func (l *Lease) Release() {
	if l.account == nil || !l.held {
		return
	}
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(l)
}

// charge charges the account what the next run is expected to take. The budget's mu is held, as below.
func (l *Lease) charge() {
	l.charged = l.account.last
	l.account.used += l.charged
}

// settle replaces what was charged in advance by what was used since, which it returns.
func (l *Lease) settle() time.Duration {
	now := time.Now()
	l.account.budget.shrink(l)
	l.account.budget.ledger.note(l, now)
	used := now.Sub(l.since) * time.Duration(l.account.width)
	l.account.used += used - l.charged
	l.since, l.charged = now, 0
	return used
}

// Solo tells whether no other lease has a run or waits, and none did lately.
func (l *Lease) Solo() bool {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return l.held && b.isSolo(l)
}

// Extend takes more cores for a solo run that is about to begin, up to threads in all, and tells whether it did. They
// are taken back when the run ends, or when another lease waits for cores.
func (l *Lease) Extend(threads int) bool {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.more > 0 { // a batch that is run again request by request
		return true
	}
	more := min(threads, b.total) - l.account.width
	if more < 1 || !b.isSolo(l) {
		return false
	}
	b.free -= more
	l.more, b.extended = more, l
	return true
}

// leaseKey is the key under which the context of a guest's run carries the lease of its instance loop.
type leaseKey struct{}

// Context returns a context for the run of a guest, with which Suspend and Budget.Leave find the lease.
func (l *Lease) Context(ctx context.Context) context.Context {
	if l.account == nil {
		return ctx
	}
	return context.WithValue(ctx, leaseKey{}, l)
}

// Suspend releases the cores of the guest whose run has ctx while the guest waits for another model: guests that held
// all cores would wait for ever for models that get none. resume waits for the cores again. Where several calls suspend
// one lease at a time, the last resume does. Any other context has no lease.
func Suspend(ctx context.Context) (resume func()) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	if !ok {
		return func() {}
	}
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.suspended++; l.suspended == 1 && l.held {
		b.release(l)
	}
	return l.resume
}

func (l *Lease) resume() {
	b := l.account.budget
	b.mu.Lock()
	l.suspended--
	wait := l.suspended == 0
	if wait {
		l.account.enter()
		b.waiting = append(b.waiting, l)
		b.serve()
	}
	b.mu.Unlock()
	if wait {
		<-l.granted
	}
}

// Leave releases the cores of the guest whose run has ctx, for the rest of that run: a guest that runs for long lets
// models go first, and continues where Idle says that cores are free. Any other context has no lease.
func (b *Budget) Leave(ctx context.Context) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.held && l.suspended == 0 {
		b.release(l)
	}
}
