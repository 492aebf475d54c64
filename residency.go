package edgewise

import (
	"context"
	"time"
)

// Resident is an Instance in a process of its own, which can be ended to give its memory back while the version stays
// ready: the next run starts it again and waits for that. It is safe for concurrent use.
type Resident interface {
	// OnDemand makes Rest possible, and says how the memory is booked. Before it the process stays.
	OnDemand(c Claims)
	// Rest ends the process after the runs that are in it, and returns when its memory is given back and Claims.Give was
	// called. It returns false when there is nothing to end.
	Rest() bool
	// Resting tells whether the next run has to wait for the process. It is cheap.
	Resting() bool
	// Wake starts the process of one that rests, as a run does. It does not rest again before release is called, once, so that
	// what waited for the process has its run. Errors: those of Claims.Take and of a load; ctx's.
	Wake(ctx context.Context) (release func(), err error)
	// Used tells when the last run began, how many there were, and whether one is in progress or waits for the process.
	Used() (last time.Time, runs int64, busy bool)
	// Takes returns what the process has for itself in memory, in bytes, now and at the most since it was started; 0
	// while there is none.
	Takes() (now, most int64)
}

// Claims are how the memory of a Resident is booked. Its functions may be called on any goroutine.
type Claims struct {
	Take  func(ctx context.Context) error // before the process is started again, after Give: waits for the memory
	Taken func(now, most int64)           // when it has been started: what it takes, in bytes
	Give  func()                          // when it has ended
	// Scarce tells whether others rest for lack of memory: nothing is taken then that only makes runs faster. It is cheap,
	// and called for runs. nil: there is enough.
	Scarce func() bool
}
