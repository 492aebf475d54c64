package sched

import "github.com/edgewise-ai/edgewise"

// NewCheck returns the check that a Scheduler makes of every request to m, for servables that have no queue of their own.
// It says why a request contradicts the model (kind Invalid) and is safe for concurrent use.
func NewCheck(m *edgewise.Model) func(*edgewise.Request) error {
	c := newChecker(m)
	return func(req *edgewise.Request) error { return c.check(req, &job{}) }
}
