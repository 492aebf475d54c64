package sched

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// batcher decides which waiting jobs make the next batch. It is a pure function of what it is shown.
type batcher struct {
	most      int           // elements of a batch
	preferred []int         // sizes to aim at, ascending; never empty
	delay     time.Duration // how long the oldest job may wait for others; 0: never while an instance loop is free
	auto      bool          // the delay adapts itself, see load
	asked     bool          // the configuration asks for batches explicitly: no trial is made
}

// moment is what a batcher has to know beside the waiting jobs.
type moment struct {
	now      time.Time
	delay    time.Duration
	expected int  // elements that are likely to be here soon, those waiting included; 0: unknown, use the whole delay
	single   bool // no batches
	ending   bool // nothing more will come
}

// closeReason says why a batch took no more requests.
type closeReason uint8

const (
	closedFull      closeReason = iota // the next request would not fit into max_batch_size, or nothing would
	closedPreferred                    // a preferred size was reached
	closedDelay                        // the oldest request had waited as long as the configuration allows
	closedShape                        // the next request has other shapes, other inputs or wants other outputs
	closedIdle                         // an instance loop was free and nothing more was waiting
	closedDeadline                     // waiting longer would have outlived a request
	closedOff                          // the version does not batch
	closeReasons
)

// closeReasonNames are the label values of the counter of closed batches.
var closeReasonNames = [closeReasons]string{"full", "preferred", "delay", "shape", "idle", "deadline", "off"}

// plan is what an instance loop is to do: run the first take jobs, or look again when a job arrives or wait is over.
type plan struct {
	take   int
	wait   time.Duration
	reason closeReason
}

// batcherOf reads a model's dynamic_batching. ok is false when the model does not batch.
func batcherOf(m *edgewise.Model) (f batcher, ok bool) {
	b := m.DynamicBatching
	if b == nil || m.MaxBatchSize <= 1 {
		return batcher{most: 1, preferred: []int{1}}, false
	}
	f = batcher{most: int(m.MaxBatchSize), delay: time.Duration(b.MaxQueueDelay) * time.Microsecond}
	for _, size := range b.PreferredBatchSize {
		f.preferred = append(f.preferred, int(size))
	}
	if len(f.preferred) == 0 {
		f.preferred = []int{f.most}
	}
	slices.Sort(f.preferred)
	f.auto = m.Parameters[delayParameter].StringValue == delayAuto
	f.asked = f.delay > 0 && !f.auto || !slices.Equal(f.preferred, []int{f.most})
	return f, true
}

// form plans the next batch out of jobs, which stand in the order in which they are to be served. It needs to see no
// more than most+1 of them.
//
// A batch takes jobs in order until one does not fit. It aims at the largest preferred size that can be had, as long as
// the delay is not over and no job has waited for half of the time that it has. Without a delay it never waits.
func (f *batcher) form(jobs []*job, m moment) plan {
	switch {
	case len(jobs) == 0:
		return plan{}
	case m.single:
		return plan{take: 1, reason: closedOff}
	}
	s := f.scan(jobs)
	age := m.now.Sub(s.oldest)
	expired := m.delay > 0 && age >= m.delay
	switch {
	case s.mark > 0 && !expired:
		return plan{take: s.mark, reason: s.markReason}
	case s.closed:
		return plan{take: s.take, reason: s.reason}
	case s.total >= f.preferred[len(f.preferred)-1]:
		return plan{take: s.take, reason: f.reached(s.total)}
	case expired:
		return plan{take: s.take, reason: closedDelay}
	case m.delay == 0 || m.ending || m.expected > 0 && s.total >= m.expected:
		return plan{take: s.take, reason: closedIdle}
	case !s.due.IsZero() && !m.now.Before(s.due):
		return plan{take: s.take, reason: closedDeadline}
	case !s.due.IsZero():
		return plan{wait: min(m.delay-age, s.due.Sub(m.now))}
	}
	return plan{wait: m.delay - age}
}

// scanned is what stands at the front of the queue.
type scanned struct {
	take, total int       // jobs that fit together, and their elements
	closed      bool      // the next one does not, for reason
	mark        int       // jobs that make the best preferred size; 0: none
	oldest      time.Time // arrival
	due         time.Time // when half of the time of a job is over, the first of these; zero: none
	reason      closeReason
	markReason  closeReason
}

func (f *batcher) scan(jobs []*job) scanned {
	s := scanned{oldest: jobs[0].arrived}
	largest := f.preferred[len(f.preferred)-1]
	for i, j := range jobs {
		if i > 0 && s.mark == 0 && s.total+j.batch > largest {
			s.mark, s.markReason = i, f.reached(max(s.total, largest))
		}
		switch {
		case i > 0 && s.total+j.batch > f.most:
			s.closed, s.reason = true, closedFull
			return s
		case i > 0 && !jobs[0].fits(j):
			s.closed, s.reason = true, closedShape
			return s
		}
		s.add(j)
		if slices.Contains(f.preferred, s.total) {
			s.mark, s.markReason = s.take, f.reached(s.total)
		}
	}
	return s
}

func (s *scanned) add(j *job) {
	s.take++
	s.total += j.batch
	if j.arrived.Before(s.oldest) {
		s.oldest = j.arrived
	}
	if j.ends.IsZero() {
		return
	}
	if half := j.arrived.Add(j.ends.Sub(j.arrived) / 2); s.due.IsZero() || half.Before(s.due) {
		s.due = half
	}
}

func (f *batcher) reached(total int) closeReason {
	if total >= f.most {
		return closedFull
	}
	return closedPreferred
}

// The model parameter that sets an adaptive delay.
const (
	delayParameter = "max_queue_delay"
	delayAuto      = "auto"
)

const (
	// maxAutoDelay bounds the adaptive delay when the configuration sets no max_queue_delay_microseconds.
	maxAutoDelay = 5 * time.Millisecond
	// tinyRun is the time of an execution below which an instance loop yields once before it takes a batch. Requests
	// queue up during longer runs anyway, and a yield could cost them their cores.
	tinyRun = 200 * time.Microsecond
)

// load is how many elements are in the scheduler, in the present period and in the one before. A period ends when a
// batch is taken. An adaptive delay derives from it how many elements to expect: those seen in the last two periods
// that are not running now. A client that was single for two periods is expected to stay single, and so is one that
// arrives after an idle time: neither ever waits.
type load struct {
	waiting, running, peak, previous int
	idle                             time.Time // since when no element is here; zero: some are, or it does not matter
}

func (l *load) arrived(n int) {
	l.waiting += n
	l.peak = max(l.peak, l.waiting+l.running)
}

func (l *load) withdrawn(n int) { l.waiting -= n }

func (l *load) taken(n int) {
	l.waiting, l.running = l.waiting-n, l.running+n
	l.previous, l.peak = l.peak, l.waiting+l.running
}

func (l *load) finished(n int) { l.running -= n }

// rest notes the time when the last element has left.
func (l *load) rest(now time.Time) {
	if l.waiting+l.running == 0 {
		l.idle = now
	}
}

// forget expects no further elements when the first request arrived later than a run takes after the scheduler became
// idle: clients that send again after an answer would have been here.
func (l *load) forget(came time.Time, run time.Duration) {
	if l.idle.IsZero() || came.IsZero() {
		return
	}
	if came.Sub(l.idle) > run {
		l.previous, l.peak = 0, l.waiting+l.running
	}
	l.idle = time.Time{}
}

// expected is at least 1.
func (l *load) expected() int { return max(l.peak, l.previous, l.running+1) - l.running }

// pace is how long an execution takes, as a moving average. It is safe for concurrent use; 0: not known yet.
type pace struct{ nanoseconds atomic.Int64 }

func (p *pace) add(took time.Duration) {
	old := p.nanoseconds.Load()
	if old == 0 {
		old = int64(took)
	}
	p.nanoseconds.Store(max(old+(int64(took)-old)/8, 1))
}

func (p *pace) read() time.Duration { return time.Duration(p.nanoseconds.Load()) }

// tiny tells whether executions are so short that what arrives together should run together.
func (p *pace) tiny() bool {
	took := p.read()
	return took > 0 && took < tinyRun
}

// autoDelay is half an execution: the wait for more requests must cost less than they save. Tiny runs
// never wait, since a timer takes longer than they do; they yield.
func (p *pace) autoDelay(configured time.Duration) time.Duration {
	if p.tiny() {
		return 0
	}
	most := maxAutoDelay
	if configured > 0 {
		most = configured
	}
	return min(p.read()/2, most)
}

// yields decides whether an instance loop yields before it takes a batch of tiny runs. A yield that brought no further
// job makes the next ones rarer, down to one in mostRare: it costs a single client next to nothing and still notices
// other clients. One that did brings them all back. Its owner's mutex guards it.
type yields struct{ pause, skip int }

const mostRare = 32

func (y *yields) due() bool {
	if y.skip == 0 {
		return true
	}
	y.skip--
	return false
}

// brought notes whether a yield was worth it.
func (y *yields) brought(job bool) {
	if job {
		*y = yields{}
		return
	}
	y.pause = min(2*y.pause+1, mostRare-1)
	y.skip = y.pause
}
