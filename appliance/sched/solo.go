package sched

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A solo run has the machine to itself. Its instance is told so, and it may take more cores, where the instance can use
// them and a trial shows a gain.

const (
	shortestSolo = time.Millisecond // a shorter run gains nothing from a second thread
	longestSolo  = time.Second      // a longer one would keep cores from others for too long
	mostRefused  = 512              // consecutive solo runs that used no more cores: then the instance cannot
	trialFirst   = 3                // first extended runs, which are not compared: their memory is new
	trialEach    = 11               // runs of both kinds that are compared
	acceptedRuns = 4096             // solo runs for which the verdict holds that more cores pay
	rejectedRuns = 512              // and the verdict that they do not, at most
	firstDoubt   = 64               // and the first such verdict: other work on the machine may have been its reason
	soloGain     = 1.15             // median time on one core over that on more: below it the cores are left to others
)

// solo tells whether the run that l is about to begin is a solo run, whose time is compared, and whether it is
// extended.
func (l *instanceLoop) solo() (compared, extended bool) {
	t, expected := &l.s.solo, l.s.queue.pace.read()
	if l.background || t.threads == 0 || expected < shortestSolo/time.Duration(t.threads) || !l.lease.Solo() {
		return false, false
	}
	return true, t.next(expected) && l.lease.Extend(t.threads)
}

// compare notes the time of a solo run, and logs the gain of extended ones when a trial ends.
func (l *instanceLoop) compare(extended, used bool, took time.Duration) {
	if gain, ended := l.s.solo.ran(extended, used, took); ended {
		l.s.logger.Info("tried whether a solo run gains by more cores",
			"model", l.s.version.ID.String(), "gain", gain, "extended", gain >= soloGain)
	}
}

// soloTrial decides which solo runs of a version are extended to more cores. Its zero value extends none.
type soloTrial struct {
	threads int // of an extended run; 0: none is extended

	mu              sync.Mutex // guards the fields below
	refused         int
	plain, extended []time.Duration // of the trial, until there are trialEach of both
	pays            bool            // the verdict, once there is one
	left            int             // solo runs until the next trial
	doubt           int             // what left is after the next verdict that they do not pay; 0: firstDoubt
}

// next tells whether the next solo run, which is expected to take some time, is extended. In a trial every other one
// is.
func (t *soloTrial) next(expected time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.left > 0:
		t.left--
		return t.pays
	case len(t.extended) == 0:
		return expected >= shortestSolo && expected <= longestSolo
	}
	return len(t.extended) <= len(t.plain)
}

// ran notes a solo run: whether it was extended, and used the cores. It returns the gain of extended runs, once, when a
// trial ends.
func (t *soloTrial) ran(extended, used bool, took time.Duration) (gain float64, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case extended && !used:
		if t.refused++; t.refused == mostRefused {
			t.refused, t.pays, t.left = 0, false, acceptedRuns
		}
		return 0, false
	case t.left > 0:
		return 0, false
	case used:
		t.refused = 0
		t.extended = append(t.extended, took)
	case len(t.extended) > 0:
		t.plain = append(t.plain, took)
	}
	if min(len(t.extended)-trialFirst, len(t.plain)) < trialEach {
		return 0, false
	}
	gain = median(t.plain).Seconds() / max(median(t.extended[trialFirst:]).Seconds(), 1e-9)
	if t.pays = gain >= soloGain; t.pays {
		t.left, t.doubt = acceptedRuns, 0
	} else {
		t.left = max(t.doubt, firstDoubt)
		t.doubt = min(2*t.left, rejectedRuns)
	}
	t.plain, t.extended = t.plain[:0], t.extended[:0]
	return gain, true
}

// median returns the median of at least one value. It sorts list.
func median[T cmp.Ordered](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}
