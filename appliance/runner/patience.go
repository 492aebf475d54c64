package runner

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a wait that does not sleep. It costs the core that it is on nothing that anybody else wants: it yields between
// two looks.
const (
	lentTime  = 3 * time.Microsecond // a yield that took longer let another thread run
	mostLent  = 4                    // such yields of a wait: then others want the core more
	mostPause = 63                   // waits between two that look for long, where looking finds nothing
)

// patience looks before a reader sleeps: while nobody else wants the core, up to a time; while others do, for a few turns
// of theirs. A look that found nothing while nobody wanted the core makes the next ones rarer, and with one core there is
// none: who is to answer has nothing but that core.
type patience struct {
	alone       bool // there is one core
	pause, skip int
}

func newPatience() patience { return patience{alone: runtime.NumCPU() < 2} }

// look returns true as soon as the word differs from seen, or false.
func (p *patience) look(word *atomic.Uint32, seen uint32, longest time.Duration) bool {
	budget := longest
	if p.skip > 0 || p.alone {
		budget = 0
	}
	start, lent := time.Now(), 0
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		now := time.Now()
		took := now.Sub(start)
		start = now
		switch {
		case word.Load() != seen:
			if budget > 0 {
				p.pause = 0
			}
			return true
		case took > lentTime:
			if lent++; lent == mostLent {
				return false
			}
		case took >= budget:
			p.missed()
			return false
		default:
			budget -= took
		}
	}
}

func (p *patience) missed() {
	if p.skip > 0 {
		p.skip--
		return
	}
	p.pause = min(2*p.pause+1, mostPause)
	p.skip = p.pause
}
