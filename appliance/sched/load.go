package sched

import (
	"sync/atomic"
	"time"
)

// The model parameter that sets an adaptive delay.
const (
	delayParameter = "max_queue_delay"
	delayAuto      = "auto"
)

const (
	// maxAutoDelay bounds the adaptive delay when the configuration sets no max_queue_delay_microseconds.
	maxAutoDelay = 5 * time.Millisecond
	// tinyRun is the time of an execution below which a lane yields once before it takes a batch, and does not keep its
	// thread. Longer runs collect company while they run, and a yield could cost them their turn.
	tinyRun = 200 * time.Microsecond
)

// load is how many elements are in the scheduler, in the present round and in the one before. A round ends when a batch
// is taken. It tells an adaptive delay whom to expect: whoever was here in the last two rounds and is not running now.
// A client that has been alone for two rounds is expected alone, and so is one that comes after a quiet time: they never
// wait.
type load struct {
	waiting, running, peak, previous int
	quiet                            time.Time // since when nobody was here; zero: somebody is, or it does not matter
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

// rest notes that nobody is here, if that is so.
func (l *load) rest(now time.Time) {
	if l.waiting+l.running == 0 {
		l.quiet = now
	}
}

// forget expects nobody any more when the one that came first did so later than a run takes: whoever comes again after an
// answer would have been here.
func (l *load) forget(came time.Time, run time.Duration) {
	if l.quiet.IsZero() || came.IsZero() {
		return
	}
	if came.Sub(l.quiet) > run {
		l.previous, l.peak = 0, l.waiting+l.running
	}
	l.quiet = time.Time{}
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

// autoDelay is half an execution: what one waits for more company must be less than what the company saves. Tiny runs
// wait for nobody, since a timer takes longer than they do; they yield.
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
