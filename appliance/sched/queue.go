package sched

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/waits"
)

// Why a queue refuses a request.
var (
	// ErrFull: as many requests wait as may.
	//lint:ignore ST1005 Triton's text, which clients match
	ErrFull = errors.New("Exceeds maximum queue size")
	//lint:ignore ST1005 Triton's text, which clients match
	errTimeout = errors.New("Request timeout expired")
	// ErrClosed is only seen when a lookup raced an unload.
	ErrClosed = errors.New("the version is being unloaded and takes no new requests")
)

// queue holds the waiting jobs of one version: a FIFO for each priority level, served strictly in order of priority.
// Instance loops take batches from it, a waiting job can be withdrawn, and answers leave it in order where that is
// configured.
type queue struct {
	batcher batcher
	single  atomic.Bool // no batches
	eager   atomic.Bool // no job waits for others: the version is not announced yet
	pace    pace

	mu     sync.Mutex      // guards what follows
	idle   []*instanceLoop // that have nothing to run; the one that ran last is the last
	levels levels
	size   int // waiting jobs
	load   load
	waits  waits.Queue
	yields yields
	order  *order // nil: answers leave as they come
	loops  loops
	closed bool
	held   int // jobs for which a test waits before the first one leaves
	counts [closeReasons]uint64
}

func newQueue(m *edgewise.Model, policies *policies, maxQueue int) *queue {
	f, batches := batcherOf(m)
	q := &queue{batcher: f, levels: newLevels(policies, maxQueue)}
	q.single.Store(!batches)
	if m.DynamicBatching != nil && m.DynamicBatching.PreserveOrdering {
		q.order = &order{}
	}
	return q
}

// push adds j at the end of its level, or returns ErrFull or ErrClosed. It returns an idle instance loop, which the
// caller leads; nil when all are busy.
func (q *queue) push(j *job) (*instanceLoop, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	level := q.levels.get(j.level)
	switch {
	case q.closed:
		return nil, ErrClosed
	case level.room.used >= level.room.limit || q.size >= q.levels.most:
		return nil, ErrFull
	}
	if q.size == 0 {
		q.waits.Reset()
	}
	level.append(j)
	q.size++
	q.load.arrived(j.batch)
	if q.order != nil {
		q.order.enter(j)
	}
	idle := q.claim()
	if idle == nil {
		q.waits.Note(&j.waiting, j.arrived)
	}
	return idle, nil
}

// note notes that j waits for the goroutine of an instance loop that was idle.
func (q *queue) note(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.list != nil {
		q.waits.Note(&j.waiting, j.arrived)
	}
}

// claim removes an instance loop from the idle ones; nil when none is idle. Whoever claims it runs a batch on it and
// rests it, or wakes its goroutine.
func (q *queue) claim() *instanceLoop {
	last := len(q.idle) - 1
	if last < 0 {
		return nil
	}
	l := q.idle[last]
	q.idle = slices.Delete(q.idle, last, last+1)
	return l
}

// rest makes an instance loop idle, unless it is to end.
func (q *queue) rest(l *instanceLoop) {
	l.yielded = false
	l.lease.Release()
	l.permit.Give()
	q.idle = append(q.idle, l)
	if q.closed || q.loops.tooMany() {
		q.wakeOne()
	}
}

// wakeOne makes an idle instance loop look at the queue, if there is one.
func (q *queue) wakeOne() {
	if l := q.claim(); l != nil {
		l.wake <- struct{}{}
	}
}

// wakeAll makes every idle instance loop look at the queue.
func (q *queue) wakeAll() {
	for len(q.idle) > 0 {
		q.wakeOne()
	}
}

// yield lets goroutines run that are about to push a job. After a job was pushed it yields again, until a batch is
// full. Where several jobs wait already, a yield without a new job does not make the next yields rarer.
func (q *queue) yield() {
	came := q.pass()
	q.yields.brought(came || q.size > 1)
	for came && q.size < q.batcher.most {
		came = q.pass()
	}
}

// pass lets others run once and tells whether one of them has pushed a job.
func (q *queue) pass() bool {
	before := q.size
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	return q.size > before
}

// plan asks the batcher. It leaves the jobs that it considered in l.jobs.
func (q *queue) plan(l *instanceLoop) plan {
	if q.holds() {
		return plan{}
	}
	m := moment{single: q.single.Load(), ending: q.closed || q.eager.Load(), delay: q.batcher.delay}
	if q.batcher.auto {
		q.load.forget(q.first(), q.pace.read())
		m.delay, m.expected = q.pace.autoDelay(q.batcher.delay), q.load.expected()
	}
	if q.timed() {
		m.now = time.Now()
	}
	for _, level := range q.levels.list {
		level.age(m.now)
	}
	most := q.batcher.most + 1
	if m.single {
		most = 1
	}
	l.jobs = q.front(l.jobs[:0], most)
	p := q.batcher.form(l.jobs, m)
	if soonest := q.soonest(); p.wait > 0 && !soonest.IsZero() {
		p.wait = min(p.wait, soonest.Sub(m.now))
	}
	return p
}

// soonest is when the next job steps behind the others because it is overdue; zero: none does.
func (q *queue) soonest() (first time.Time) {
	for _, level := range q.levels.list {
		if at := level.soonest; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// first is when the job that is served next came; zero without one.
func (q *queue) first() time.Time {
	for _, level := range q.levels.list {
		for _, f := range []*fifo{&level.fresh, &level.late} {
			if f.first != nil {
				return f.first.arrived
			}
		}
	}
	return time.Time{}
}

// timed tells whether a plan needs to know the time.
func (q *queue) timed() bool {
	return q.batcher.delay > 0 || q.batcher.auto || !q.soonest().IsZero()
}

// front appends the first jobs to list, at most n.
func (q *queue) front(list []*job, n int) []*job {
	for _, level := range q.levels.list {
		for _, f := range []*fifo{&level.fresh, &level.late} {
			for j := f.first; j != nil; j = j.next {
				if len(list) == n {
					return list
				}
				list = append(list, j)
			}
		}
	}
	return list
}

// hand moves the first jobs of l.jobs out of the queue. The rest is for another instance loop.
func (q *queue) hand(l *instanceLoop, p plan) {
	clear(l.jobs[p.take:])
	l.jobs = l.jobs[:p.take]
	for _, j := range l.jobs {
		q.unlink(j)
		q.waits.Explain(&j.waiting)
		if len(l.jobs) > 1 {
			j.group = l.group
		}
	}
	requests := requestsOf(l.jobs)
	q.waits.Begun += requests
	l.lease.Runs(int(requests))
	q.load.taken(elements(l.jobs))
	q.counts[p.reason]++
	l.yielded = false
	if l.queued = q.size > 0; l.queued {
		q.wakeOne()
	}
}

func (q *queue) unlink(j *job) {
	q.levels.remove(j)
	q.size--
}

// withdraw takes j back and tells whether it was still waiting.
func (q *queue) withdraw(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.list == nil {
		return false
	}
	q.unlink(j)
	q.load.withdrawn(j.batch)
	q.wakeOne() // what stood behind it may make a batch now
	if q.order != nil {
		q.order.leave(j)
	}
	return true
}

// finish notes that jobs have their answers and returns those whose answers may leave, in order, appended to list.
func (q *queue) finish(jobs, list []*job) []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.load.finished(elements(jobs))
	q.waits.Done += requestsOf(jobs)
	if q.batcher.auto {
		q.load.rest(time.Now())
	}
	if q.order == nil {
		return append(list, jobs...)
	}
	return q.order.answered(jobs, list)
}

// close refuses further jobs and wakes every waiting instance loop.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeAll()
}

// wake makes every waiting instance loop look again.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeAll()
}

// read returns how many jobs wait and why batches were closed.
func (q *queue) read() (size int, closed map[string]uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	closed = map[string]uint64{}
	for reason, n := range q.counts {
		closed[closeReasonNames[reason]] = n
	}
	return q.size, closed
}

// reset forgets why batches were closed.
func (q *queue) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts = [closeReasons]uint64{}
}

// Hold keeps a version from running anything until as many requests wait as a test wants to see in its batches. Then,
// for good, the version runs what waits and what comes. Requests of the warm-up are not held back. It is Triton's
// TRITONSERVER_DELAY_SCHEDULER and TRITONSERVER_BACKLOG_DELAY_SCHEDULER.
type Hold struct {
	Queued  int // requests in the queue of a version that batches, or in the slots of its sequences
	Backlog int // and, with the strategy direct, requests of sequences without a slot
}

// hold lets nothing leave the queue before n jobs wait.
func (q *queue) hold(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = n
}

// holds tells whether nothing may leave the queue yet. What is closed is not held.
func (q *queue) holds() bool {
	if q.size >= q.held || q.closed {
		q.held = 0
	}
	return q.held > 0
}
