package sched

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// sequenceKey tells the sequences of one version apart.
type sequenceKey struct {
	id   uint64
	name string
}

func keyOf(s edgewise.Sequence) sequenceKey { return sequenceKey{s.ID, s.Name} }

// String is the id as a client wrote it.
func (k sequenceKey) String() string {
	if k.name != "" {
		return k.name
	}
	return fmt.Sprint(k.id)
}

// sequence is one sequence from its first request to its end. The table's mutex guards it, but for state, which belongs
// to whoever runs its request.
//
//	         enters            a slot is free         its last request is done
//	(none) ---------> backlog -----------------> slot --------------------------> (none)
//	                     |                        |                                  ^
//	                     | canceled, time over    | idle for too long, canceled      |
//	                     +------------------------+----------------------------------+
//
// At most one of its requests runs at a time, and they run in the order in which they came.
type sequence struct {
	key     sequenceKey
	seated  bool    // it has a slot
	slot    slot    // where, when it is seated
	queue   []*turn // waiting, in order of arrival
	running *turn
	ending  bool       // it takes no more requests: its last one is in the queue, runs or has been canceled
	expires time.Time  // when its time in the backlog is over; zero: never
	since   time.Time  // idle since then, while it is in the list of idle ones
	link    linked     // in the backlog or among the idle ones
	state   stateStore // what its last request left behind
}

// turn is one request of a sequence. Its owner is the goroutine of Infer; the table's mutex guards what is not said to be
// its owner's.
type turn struct {
	of         *sequence
	start, end bool // set by its owner before it enters
	restarts   bool // the sequence was there already. Written by enter
	arrived    time.Time
	call       *sequenceCall
	granted    chan struct{} // one token: it is this request's turn, or there is an answer
	err        error         // why it is never going to run. Written before the token, read after it
}

var (
	errSequenceCanceled = errors.New("an earlier request of the sequence was canceled")
	errSequenceTimeout  = errors.New("timeout of the corresponding sequence has been expired")
	//lint:ignore ST1005 Triton's text, which clients match
	errSequenceStopping = errors.New("Server is stopping, scheduler for model has stopped accepting new inference requests")
	// errSequenceUnknown stands for Triton's text about the START flag, which names the sequence.
	errSequenceUnknown = errors.New("the sequence has not been started")
)

// slots is where sequences are while their requests may run.
type slots interface {
	// take gives a sequence a slot and tells whether there was one.
	take(s *sequence) bool
	// give takes it back.
	give(s *sequence)
	// advance is called when a sequence that has a slot has a request waiting and none running.
	advance(s *sequence)
	// resize changes how many instances there are. Sequences keep their slots.
	resize(instances int)
}

// sequenceTable holds the sequences of one version: those with slots, and behind them the backlog, in order of arrival.
type sequenceTable struct {
	idleLimit time.Duration // a sequence that is idle for so long is forgotten
	maxQueue  int           // requests that wait, of all sequences together

	mu       sync.Mutex // guards what follows, and all sequences, turns and slots
	slots    slots
	live     map[sequenceKey]*sequence // that take further requests
	held     int                       // all of them, those included that only end
	waiting  int                       // requests
	backlog  list
	idle     list // in the order in which they became idle
	timer    *time.Timer
	draining bool
	closed   bool
	hold     Hold          // for tests: until when no request begins
	stopped  []*sequence   // that would have begun
	empty    chan struct{} // closed when draining and none is held; nil until somebody waits
	forget   func(*sequence)
	inflight sync.WaitGroup              // requests that have entered; whoever entered one counts it out
	counts   edgewise.SequenceStatistics // Expired and Restarted
}

// enter adds a request to its sequence, which it begins if it says so. Errors: errClosed, errSequenceStopping,
// errSequenceUnknown, errFull.
func (t *sequenceTable) enter(key sequenceKey, c *turn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(c.arrived)
	s := t.live[key]
	switch {
	case t.closed:
		return errClosed
	case t.draining && c.start:
		return errSequenceStopping
	case s == nil && !c.start:
		return errSequenceUnknown
	case t.waiting >= t.maxQueue:
		return errFull
	case s == nil:
		s = t.begin(key)
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
func (t *sequenceTable) begin(key sequenceKey) *sequence {
	s := &sequence{key: key}
	s.link.of = s
	t.live[key] = s
	t.held++
	t.backlog.push(&s.link)
	return s
}

// seat gives free slots to those that have waited longest.
func (t *sequenceTable) seat() {
	for l := t.backlog.first; l != nil; l = t.backlog.first {
		if !t.slots.take(l.of) {
			return
		}
		l.of.seated = true
		t.backlog.remove(l)
		t.next(l.of)
	}
}

// append puts a request behind those of its sequence.
func (t *sequenceTable) append(s *sequence, c *turn) {
	s.queue = append(s.queue, c)
	t.waiting++
	if c.end {
		t.lastOf(s)
	}
	if !s.seated {
		s.limit(c)
		t.seat()
		return
	}
	t.next(s)
}

// lastOf keeps further requests out of a sequence: those with its id are of another one.
func (t *sequenceTable) lastOf(s *sequence) {
	s.ending = true
	if t.live[s.key] == s {
		delete(t.live, s.key)
	}
}

// next lets a sequence with a slot go on: its next request has its turn, or it is idle, or it has ended.
func (t *sequenceTable) next(s *sequence) {
	switch {
	case s.running != nil:
	case len(s.queue) > 0:
		t.idle.remove(&s.link)
		if t.hold != (Hold{}) {
			t.stopped = append(t.stopped, s)
			return
		}
		t.slots.advance(s)
	case s.ending:
		t.drop(s)
	case s.link.in == nil:
		s.since = time.Now()
		t.idle.push(&s.link)
		t.watch()
	}
}

// start takes the next request of a sequence, which runs from then on.
func (t *sequenceTable) start(s *sequence) *turn {
	c := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	t.waiting--
	s.running = c
	return c
}

// finish notes that a request of a sequence has run. broken: the sequence cannot go on, because its client has left.
func (t *sequenceTable) finish(c *turn, broken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := c.of
	s.running = nil
	if broken {
		t.cut(s, 0)
	}
	t.next(s)
}

// withdraw takes back a request that waits, and with it those behind it, and tells whether it did.
func (t *sequenceTable) withdraw(c *turn) bool {
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

// cut cancels the requests of a sequence from the i-th waiting one on, up to one that starts anew. If there is none the
// sequence has its end there.
func (t *sequenceTable) cut(s *sequence, i int) {
	to := i
	for to < len(s.queue) && !s.queue[to].start {
		t.fail(s.queue[to], errSequenceCanceled)
		to++
	}
	restarts := to < len(s.queue)
	s.queue = append(s.queue[:i], s.queue[to:]...)
	if !restarts {
		t.lastOf(s)
	}
}

func (t *sequenceTable) fail(c *turn, err error) {
	t.waiting--
	c.err = err
	c.granted <- struct{}{}
}

// settle drops a sequence that nothing is left of, or lets it go on.
func (t *sequenceTable) settle(s *sequence) {
	switch {
	case s.seated:
		t.next(s)
	case len(s.queue) == 0:
		t.drop(s)
	}
}

// overdue fails all requests of c's sequence when it is still in the backlog and its time there is over. It tells whether
// c has to wait no longer for that.
func (t *sequenceTable) overdue(c *turn, now time.Time) (settled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := c.of
	if s.seated || s.link.in != &t.backlog {
		return true
	}
	if now.Before(s.expires) {
		return false
	}
	for _, waiting := range s.queue {
		t.fail(waiting, errSequenceTimeout)
	}
	s.queue = nil
	t.drop(s)
	return true
}

// limit notes how long c may wait. The time of a sequence in the backlog is over with that of its first request to run out
// of time, as in Triton.
func (s *sequence) limit(c *turn) {
	timeout := c.call.request.Timeout
	if until := c.arrived.Add(timeout); timeout > 0 && (s.expires.IsZero() || until.Before(s.expires)) {
		s.expires = until
	}
}

// renew makes the time of a sequence in the backlog what the requests that are left allow.
func (s *sequence) renew() {
	s.expires = time.Time{}
	for _, c := range s.queue {
		s.limit(c)
	}
}

// drop ends a sequence that has no request. Its slot goes to the backlog.
func (t *sequenceTable) drop(s *sequence) {
	t.lastOf(s)
	s.link.leave()
	t.held--
	t.forget(s)
	if s.seated {
		s.seated = false
		t.slots.give(s)
	}
	t.seat()
	if t.empty != nil && t.held == 0 {
		close(t.empty)
		t.empty = nil
	}
}

// expire forgets sequences that have been idle for too long.
func (t *sequenceTable) expire(now time.Time) {
	for l := t.idle.first; l != nil && now.Sub(l.of.since) >= t.idleLimit; l = t.idle.first {
		t.counts.Expired++
		t.drop(l.of)
	}
}

// watch makes sure that expire is called when the time of the first idle sequence is over.
func (t *sequenceTable) watch() {
	l := t.idle.first
	if l == nil || t.closed || l != t.idle.last && t.timer != nil {
		return // the timer is set for an earlier one
	}
	wait := t.idleLimit - time.Since(l.of.since)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.sweep)
		return
	}
	t.timer.Reset(wait)
}

func (t *sequenceTable) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(time.Now())
	if l := t.idle.first; l != nil && !t.closed {
		t.timer.Reset(t.idleLimit - time.Since(l.of.since))
	}
}

// holds tells whether a sequence takes further requests here.
func (t *sequenceTable) holds(key sequenceKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(time.Now())
	return !t.closed && t.live[key] != nil
}

// drain refuses new sequences and returns a channel that is closed when there are none.
func (t *sequenceTable) drain() <-chan struct{} {
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
func (t *sequenceTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	for l := t.idle.first; l != nil; l = t.idle.first {
		t.drop(l.of)
	}
	for _, s := range t.live {
		s.ending = true
	}
	clear(t.live)
	t.release()
}

// read returns what is to be told of the table.
func (t *sequenceTable) read() (stats edgewise.SequenceStatistics, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stats = t.counts
	stats.Live, stats.Backlog = t.held-t.backlog.size, t.backlog.size
	return stats, t.waiting
}
