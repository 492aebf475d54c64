package runner

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a wait that does not sleep. It yields the core between two reads of the word, so other threads lose
// nothing.
const (
	slowYield     = 3 * time.Microsecond // a yield that takes longer let another thread run
	maxSlowYields = 4                    // slow yields of a wait, after which it ends: other threads want the core
	maxPause      = 63                   // waits without a spin between two spins, where spins end without an answer
)

// spinWait reads a word before its reader sleeps: for a time while no other thread wants the core, for a few of their
// turns otherwise. A spin that ends without an answer while the core was idle makes the next ones rarer. With one core
// there are no spins: the writer needs that core.
type spinWait struct {
	alone       bool // there is one core
	pause, skip int
}

func newSpinWait() spinWait { return spinWait{alone: runtime.NumCPU() < 2} }

// look returns true as soon as the word differs from seen, or false.
func (p *spinWait) look(word *atomic.Uint32, seen uint32, longest time.Duration) bool {
	s := p.begin(longest)
	for start := time.Now(); ; {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		now := time.Now()
		took := now.Sub(start)
		start = now
		if word.Load() != seen {
			p.answered(s)
			return true
		}
		if s.ends(took) {
			p.unanswered(s)
			return false
		}
	}
}

// spin is one look at a word.
type spin struct {
	budget time.Duration // what is left of it
	slow   int           // yields that took longer than slowYield
}

func (p *spinWait) begin(longest time.Duration) spin {
	if p.skip > 0 || p.alone {
		longest = 0
	}
	return spin{budget: longest}
}

// ends returns whether a yield that took so long is the last of the spin.
func (s *spin) ends(took time.Duration) bool {
	if took > slowYield {
		s.slow++
		return s.slow == maxSlowYields
	}
	s.budget -= took
	return s.budget <= 0
}

func (p *spinWait) answered(s spin) {
	if s.budget > 0 {
		p.pause = 0
	}
}

// unanswered makes spins rarer after one that was spent. One that ended because the core was busy says nothing.
func (p *spinWait) unanswered(s spin) {
	if s.slow == maxSlowYields {
		return
	}
	if p.skip > 0 {
		p.skip--
		return
	}
	p.pause = min(2*p.pause+1, maxPause)
	p.skip = p.pause
}
