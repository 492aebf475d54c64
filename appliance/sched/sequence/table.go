package sequence

import (
	"errors"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

var (
	errCanceled = errors.New("an earlier request of the sequence was canceled")
	errTimeout  = errors.New("timeout of the corresponding sequence has been expired")
	//lint:ignore ST1005 Triton's text, which clients match
	errStopping = errors.New("Server is stopping, scheduler for model has stopped accepting new inference requests")
	// errUnknown stands for Triton's text about the START flag, which names the sequence.
	errUnknown = errors.New("the sequence has not been started")
)

// table holds the sequences of one version: those with slots, and behind them the backlog, in order of arrival.
type table struct {
	idleLimit time.Duration // a sequence that is idle for so long is forgotten
	maxQueue  int           // requests that wait, of all sequences together

	mu       sync.Mutex // guards the fields below, and all sequences, requests and slots
	slots    slots
	live     map[correlationID]*sequence // that take further requests
	held     int                         // all of them, those included that only end
	waiting  int                         // requests
	backlog  line
	idle     line // in the order in which they became idle
	timer    *time.Timer
	draining bool
	closed   bool
	hold     sched.Hold    // for tests: until when no request begins
	stopped  []*sequence   // that would have begun
	empty    chan struct{} // closed when draining and none is held; nil until drain is called
	forget   func(*sequence)
	inflight sync.WaitGroup              // requests that have entered; Infer, which entered one, calls Done
	counts   edgewise.SequenceStatistics // Expired and Restarted
}

// enter adds a request to its sequence, which it begins if it says so. Errors: sched.ErrClosed, errStopping,
// errUnknown, sched.ErrFull.
func (t *table) enter(id correlationID, c *request) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(c.arrived)
	s := t.live[id]
	switch {
	case t.closed:
		return sched.ErrClosed
	case t.draining && c.start:
		return errStopping
	case s == nil && !c.start:
		return errUnknown
	case t.waiting >= t.maxQueue:
		return sched.ErrFull
	case s == nil:
		s = t.begin(id)
	case c.start:
		t.counts.Restarted++
		c.restarts = true
	}
	c.of = s
	t.inflight.Add(1)
	t.append(s, c)
	t.release()
	return nil
}

// begin makes a sequence and puts it into the backlog behind those that wait already.
func (t *table) begin(id correlationID) *sequence {
	s := &sequence{id: id}
	t.live[id] = s
	t.held++
	s.enter(&t.backlog)
	return s
}

// assign gives free slots to the sequences that have waited longest.
func (t *table) assign() {
	for s := t.backlog.first(); s != nil; s = t.backlog.first() {
		if !t.slots.take(s) {
			return
		}
		s.hasSlot = true
		s.leave()
		t.next(s)
	}
}

// append puts a request behind those of its sequence.
func (t *table) append(s *sequence, c *request) {
	s.queue = append(s.queue, c)
	t.waiting++
	if c.end {
		t.lastOf(s)
	}
	if !s.hasSlot {
		s.limit(c)
		t.assign()
		return
	}
	t.next(s)
}

// lastOf keeps further requests out of a sequence: those with its id are of another one.
func (t *table) lastOf(s *sequence) {
	s.ending = true
	if t.live[s.id] == s {
		delete(t.live, s.id)
	}
}

// next continues a sequence with a slot: its next request runs, or it is idle, or it has ended.
func (t *table) next(s *sequence) {
	switch {
	case s.running != nil:
	case len(s.queue) > 0:
		s.leave()
		if t.hold != (sched.Hold{}) {
			t.stopped = append(t.stopped, s)
			return
		}
		t.slots.advance(s)
	case s.ending:
		t.drop(s)
	case s.in == nil:
		s.since = time.Now()
		s.enter(&t.idle)
		t.watch()
	}
}

// start takes the next request of a sequence, which runs from then on.
func (t *table) start(s *sequence) *request {
	c := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	t.waiting--
	s.running = c
	return c
}

// finish notes that a request of a sequence has run. broken: the sequence cannot continue, because its client has left.
func (t *table) finish(c *request, broken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := c.of
	s.running = nil
	if broken {
		t.cut(s, 0)
	}
	t.next(s)
}

// withdraw removes a request that waits, and those behind it, and tells whether it did.
func (t *table) withdraw(c *request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, waiting := range c.of.queue {
		if waiting == c {
			t.waiting--
			copy(c.of.queue[i:], c.of.queue[i+1:])
			c.of.queue = c.of.queue[:len(c.of.queue)-1]
			t.cut(c.of, i)
			c.of.renew()
			t.settle(c.of)
			return true
		}
	}
	return false
}

// cut cancels the requests of a sequence from the i-th waiting one on, up to one that starts the sequence again. If there is none the
// sequence has its end there.
func (t *table) cut(s *sequence, i int) {
	to := i
	for to < len(s.queue) && !s.queue[to].start {
		t.fail(s.queue[to], errCanceled)
		to++
	}
	restarts := to < len(s.queue)
	s.queue = append(s.queue[:i], s.queue[to:]...)
	if !restarts {
		t.lastOf(s)
	}
}

func (t *table) fail(c *request, err error) {
	t.waiting--
	c.err = err
	c.granted <- struct{}{}
}

// settle drops a sequence without requests, or continues it.
func (t *table) settle(s *sequence) {
	switch {
	case s.hasSlot:
		t.next(s)
	case len(s.queue) == 0:
		t.drop(s)
	}
}

// overdue fails all requests of c's sequence when it is still in the backlog and its time there is over. It tells
// whether c has to wait no longer for that.
func (t *table) overdue(c *request, now time.Time) (settled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := c.of
	if s.hasSlot || s.in != &t.backlog {
		return true
	}
	if now.Before(s.expires) {
		return false
	}
	for _, waiting := range s.queue {
		t.fail(waiting, errTimeout)
	}
	s.queue = nil
	t.drop(s)
	return true
}

// drop ends a sequence that has no request. Its slot goes to the backlog.
func (t *table) drop(s *sequence) {
	t.lastOf(s)
	s.leave()
	t.held--
	t.forget(s)
	if s.hasSlot {
		s.hasSlot = false
		t.slots.give(s)
	}
	t.assign()
	if t.empty != nil && t.held == 0 {
		close(t.empty)
		t.empty = nil
	}
}

// expire forgets sequences that have been idle for too long.
func (t *table) expire(now time.Time) {
	for s := t.idle.first(); s != nil && now.Sub(s.since) >= t.idleLimit; s = t.idle.first() {
		t.counts.Expired++
		t.drop(s)
	}
}

// watch makes sure that expire is called when the time of the first idle sequence is over.
func (t *table) watch() {
	s := t.idle.first()
	if s == nil || t.closed || t.idle.Len() > 1 && t.timer != nil {
		return // the timer is set for an earlier one
	}
	wait := t.idleLimit - time.Since(s.since)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.sweep)
		return
	}
	t.timer.Reset(wait)
}

func (t *table) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(time.Now())
	if s := t.idle.first(); s != nil && !t.closed {
		t.timer.Reset(t.idleLimit - time.Since(s.since))
	}
}

// release ends the hold of a test when as many requests wait as it asks for. Those of sequences with slots begin.
func (t *table) release() {
	if t.hold == (sched.Hold{}) {
		return
	}
	backlog := 0
	for e := t.backlog.Front(); e != nil; e = e.Next() {
		backlog += len(e.Value.(*sequence).queue)
	}
	if !t.closed && (t.waiting-backlog < t.hold.Queued || backlog < t.hold.Backlog) {
		return
	}
	stopped := t.stopped
	t.hold, t.stopped = sched.Hold{}, nil
	for _, s := range stopped {
		if s.hasSlot && len(s.queue) > 0 {
			t.next(s)
		}
	}
}

// holds tells whether a sequence takes further requests here.
func (t *table) holds(id correlationID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(time.Now())
	return !t.closed && t.live[id] != nil
}

// drain refuses new sequences and returns a channel that is closed when there are none.
func (t *table) drain() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	empty := t.empty
	if t.held == 0 {
		close(t.empty)
		t.empty = nil
	}
	return empty
}

// close refuses every further request and forgets the sequences that are idle. Those with requests end with these.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	for s := t.idle.first(); s != nil; s = t.idle.first() {
		t.drop(s)
	}
	for _, s := range t.live {
		s.ending = true
	}
	clear(t.live)
	t.release()
}

// read returns the statistics of the table.
func (t *table) read() (stats edgewise.SequenceStatistics, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stats = t.counts
	stats.Live, stats.Backlog = t.held-t.backlog.Len(), t.backlog.Len()
	return stats, t.waiting
}

// slots are the places of sequences whose requests may run.
type slots interface {
	// take gives a sequence a slot and tells whether one was free.
	take(s *sequence) bool
	// give frees the slot of a sequence.
	give(s *sequence)
	// advance is called when a sequence that has a slot has a request waiting and none running.
	advance(s *sequence)
	// resize changes how many instances there are. Sequences keep their slots.
	resize(instances int)
}

// oldestSlots are the slots of sequences whose requests run as ordinary requests: each for each instance.
type oldestSlots struct {
	table     *table
	each      int
	instances int
	used      []int // of each instance, those included that take no more sequences
}

// take gives a sequence a slot of the instance that has most of them free.
func (s *oldestSlots) take(q *sequence) bool {
	best, total := 0, 0
	for i, used := range s.used {
		if total += used; i < s.instances && used < s.used[best] {
			best = i
		}
	}
	if total >= s.instances*s.each {
		return false
	}
	s.used[best]++
	q.slot.instance = best + 1
	return true
}

func (s *oldestSlots) give(q *sequence) {
	s.used[q.slot.instance-1]--
	q.slot = slot{}
}

func (s *oldestSlots) resize(instances int) {
	s.instances = instances
	for len(s.used) < instances {
		s.used = append(s.used, 0)
	}
}

// advance lets the next request run.
func (s *oldestSlots) advance(q *sequence) { s.table.start(q).granted <- struct{}{} }
