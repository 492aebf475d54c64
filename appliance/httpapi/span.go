package httpapi

import (
	"context"
	"sync/atomic"
	"time"
)

// span bounds inferences. Those that begin shortly after one another share a context, since making and ending one for
// each took more than reading a small request: they get the timeout, and up to a slackShare of it more. A context ends
// by itself when its time is over, or when base does.
type span struct {
	base    context.Context
	timeout time.Duration // 0: none
	latest  atomic.Pointer[shared]
}

// shared is the context of the inferences that begin before a time.
type shared struct {
	ctx    context.Context
	cancel context.CancelFunc
	before time.Time
}

// begin returns the context of an inference that begins now.
func (s *span) begin(now time.Time) context.Context {
	if s.timeout == 0 {
		return s.base
	}
	if l := s.latest.Load(); l != nil && now.Before(l.before) {
		return l.ctx
	}
	next := &shared{before: now.Add(s.timeout / slackShare)}
	next.ctx, next.cancel = context.WithDeadline(s.base, next.before.Add(s.timeout))
	s.latest.Store(next)
	return next.ctx
}
