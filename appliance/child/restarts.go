package child

import (
	"slices"
	"time"
)

// Restarts says when a child that has died is started again. Zero values take the defaults named beside them.
type Restarts struct {
	FirstBackOff time.Duration // wait before the first restart, doubled for each further one; 100 ms
	LastBackOff  time.Duration // longest such wait; 30 seconds
	MaxCrashes   int           // crashes within CrashWindow that end the restarts; 5
	CrashWindow  time.Duration // 10 minutes
}

// Complete fills the defaults in.
func (r Restarts) Complete() Restarts {
	fill(&r.FirstBackOff, 100*time.Millisecond)
	fill(&r.LastBackOff, 30*time.Second)
	fill(&r.MaxCrashes, 5)
	fill(&r.CrashWindow, 10*time.Minute)
	return r
}

func fill[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

// BackOff is the wait after the n-th crash, n from 1.
func (r Restarts) BackOff(n int) time.Duration {
	wait := r.FirstBackOff
	for ; n > 1 && wait < r.LastBackOff; n-- {
		wait *= 2
	}
	return min(wait, r.LastBackOff)
}

// Crashes are when a child has died within the window.
type Crashes []time.Time

// Add records a crash, and forgets those that are outside the window. It tells whether it was the last one allowed.
func (c *Crashes) Add(now time.Time, r Restarts) (last bool) {
	*c = append(slices.DeleteFunc(*c, func(t time.Time) bool { return now.Sub(t) > r.CrashWindow }), now)
	return len(*c) >= r.MaxCrashes
}
