package sched

import (
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// A model that one client asks, one request after the other, leaves all cores but one idle. So a run that has the box to
// itself is told that it is alone, and may take more cores, where the instance can and where that is seen to pay.

const (
	loneRuns    = 8                // runs in a row without company that make the next one count as alone
	shortest    = time.Millisecond // a run below this is not worth a second thread, nor a core of its own
	longest     = time.Second      // nor, for others, is one above
	mostRefused = 512              // runs in a row that were told and did not make use of it: they do not pay
	trialFirst  = 3                // wide runs that are not compared: their memory is new
	trialEach   = 11               // runs of both kinds that are compared
	verdictRuns = 4096             // lone runs for which a verdict holds that they pay
	refusalRuns = 512              // and one that they do not, at most
	firstDoubt  = 64               // and the first such one: other work on the machine may have been all there was to it
	wideGain    = 1.15             // median without over median with: below it the cores are better left to others
)

// alone tells whether nobody else runs or waits, or did lately.
func (s *seat) alone() bool {
	c := s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.held && c.alone(s)
}

// alone is what a seat's is. The caller holds mu.
func (c *Cores) alone(s *seat) bool { return c.lone >= loneRuns && !c.company(s) }

// company tells whether others than s run or wait. The caller holds mu.
func (c *Cores) company(s *seat) bool {
	busy := c.total - c.free - int(c.ended.Load())
	if s.held && !s.ended {
		busy -= s.cores()
	}
	return busy > 0 || len(c.waiting) > 0
}

// end notes that the run on the cores has ended, and whether it was a lone one, before its answers leave, and gives back what widen
// took: the next request may be on another lane before this one passes, and is no company to it.
func (s *seat) end() {
	if s.account == nil || !s.held || s.ended {
		return
	}
	c := s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lone++; c.company(s) {
		c.lone = 0
	}
	s.ended = true
	c.ended.Add(int64(s.account.width))
	if s.more > 0 {
		c.narrow(s)
		c.serve()
	}
}

// begin notes that what was ended is not any more.
func (s *seat) begin() {
	if s.ended {
		s.ended = false
		s.account.cores.ended.Add(-int64(s.account.width))
	}
}

// narrow gives back what widen took: at the end of the run, or sooner when somebody waits for cores. The run's threads go on, but
// they are nicer than those of others. The caller holds mu.
func (c *Cores) narrow(s *seat) {
	if s.more == 0 {
		return
	}
	s.account.used += time.Since(s.since) * time.Duration(s.more)
	c.free += s.more
	s.more, c.wide = 0, nil
}

// widen takes more cores for a run that is about to begin, up to threads in all, if it is still alone; see narrow.
func (s *seat) widen(threads int) bool {
	c := s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.more > 0 { // a batch that is run again request by request
		return true
	}
	more := min(threads, c.total) - s.account.width
	if more < 1 || !c.alone(s) {
		return false
	}
	c.free -= more
	s.more, c.wide = more, s
	return true
}

// cores is how many the seat has while it is held.
func (s *seat) cores() int { return s.account.width + s.more }

// alone tells whether the run that l is about to begin has the box to itself, and whether it is told so.
func (l *lane) alone() (lone, told bool) {
	w, expected := &l.s.width, l.s.queue.pace.read()
	if w.threads == 0 || expected < shortest/edgewise.MostWide || !l.seat.alone() {
		return false, false
	}
	return true, w.asks(expected) && l.seat.widen(w.threads)
}

// compare notes a lone run, and logs what wide ones gain when that is known.
func (l *lane) compare(told, was bool, took time.Duration) {
	gain, ended := l.s.width.ran(told, was, took)
	if ended {
		l.s.logger.Info("tried whether a lone run gains by more cores", "model", l.s.version.ID.String(), "gain", gain, "wide", gain >= wideGain)
	}
}

// width decides which lone runs of a version are told so. Its zero value tells none.
type width struct {
	threads int // of such a run; 0: none is wide

	mu          sync.Mutex // guards what follows
	refused     int
	plain, wide []time.Duration // of the trial, until there are trialEach of both
	pays        bool            // the verdict, once there is one
	left        int             // lone runs until the next trial
	doubt       int             // what left is after the next verdict that they do not pay; 0: firstDoubt
}

// asks tells whether the next lone run, which is expected to take some time, is to be wide. Runs of a trial are so in turn.
func (w *width) asks(expected time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.left > 0:
		w.left--
		return w.pays
	case len(w.wide) == 0:
		return expected >= shortest && expected <= longest
	}
	return len(w.wide) <= len(w.plain)
}

// ran notes a lone run: whether it was asked to be wide, and was. It returns what the wide ones gain, once, when a trial ends.
func (w *width) ran(asked, was bool, took time.Duration) (gain float64, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case asked && !was:
		if w.refused++; w.refused == mostRefused {
			w.refused, w.pays, w.left = 0, false, verdictRuns
		}
		return 0, false
	case w.left > 0:
		return 0, false
	case was:
		w.refused = 0
		w.wide = append(w.wide, took)
	case len(w.wide) > 0:
		w.plain = append(w.plain, took)
	}
	if min(len(w.wide)-trialFirst, len(w.plain)) < trialEach {
		return 0, false
	}
	gain = median(w.plain).Seconds() / max(median(w.wide[trialFirst:]).Seconds(), 1e-9)
	if w.pays = gain >= wideGain; w.pays {
		w.left, w.doubt = verdictRuns, 0
	} else {
		w.left = max(w.doubt, firstDoubt)
		w.doubt = min(2*w.left, refusalRuns)
	}
	w.plain, w.wide = w.plain[:0], w.wide[:0]
	return gain, true
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
