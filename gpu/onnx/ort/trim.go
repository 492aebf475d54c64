package ort

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// trimInterval is how often the arena is looked at while models run, and how long after the last run.
	trimInterval = 5 * time.Second
	// keptUnused is how many unused bytes of the arena are never given back.
	keptUnused = 64 << 20
	// maxTrimWait bounds for how many intervals unused memory is kept that the runs have taken again each time.
	maxTrimWait = 64
)

// trimmer gives the arena's memory back that runs have left behind: ten seconds after the last run at the latest, and
// while models run, too. Memory that the next runs take again is given back ever more rarely, because allocating it again
// costs them time. Where nothing runs, no timer does.
type trimmer struct {
	unused func() (int64, error) // bytes
	shrink func() error

	recent atomic.Bool // something ran since the last look

	mu      sync.Mutex // guards the fields below
	waiting bool       // a look is due
	looks   int        // since the last shrinking
	wait    int        // so many looks are to come between two shrinkings
}

// ran notes that a run has ended and its outputs were released, or the end of a session.
func (t *trimmer) ran() {
	if !t.recent.Load() && !t.recent.Swap(true) {
		t.arm()
	}
}

func (t *trimmer) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.waiting {
		t.waiting = true
		time.AfterFunc(trimInterval, t.look)
	}
}

// release gives memory back at once, which a run lacks, and tells whether there was any to give.
func (t *trimmer) release() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	unused, err := t.unused()
	return err == nil && unused > keptUnused && t.shrink() == nil
}

// look gives memory back if there is any to give, and comes again after another run.
func (t *trimmer) look() {
	busy := t.recent.Swap(false)
	t.mu.Lock()
	t.trim(busy)
	t.waiting = false
	t.mu.Unlock()
	if busy || t.recent.Load() {
		t.arm()
	}
}

// trim shrinks the arena unless its memory is too little, or will be taken again. The caller holds mu.
func (t *trimmer) trim(busy bool) {
	unused, err := t.unused()
	if err != nil {
		return
	}
	t.looks++
	switch {
	case unused <= keptUnused:
		t.wait /= 2
	case !busy:
		t.wait = 0
		_ = t.shrink() // what stays is tried again after the next run
	case t.looks > t.wait:
		t.looks, t.wait = 0, min(max(2*t.wait, 1), maxTrimWait)
		_ = t.shrink()
	}
}
