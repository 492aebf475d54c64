package frontend

import (
	"context"
	"time"
)

// Renewed is the context of a request that may have several responses: its time is that from one response to the next.
type Renewed struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

// NewRenewed returns a context that ends with ctx, and when limit has passed since Renew was called; 0: no limit. End is
// called after it.
func NewRenewed(ctx context.Context, limit time.Duration) *Renewed {
	r := &Renewed{limit: limit}
	r.Context, r.cancel = context.WithCancelCause(ctx)
	if limit > 0 {
		r.timer = time.AfterFunc(limit, func() { r.cancel(context.DeadlineExceeded) })
	}
	return r
}

// Err says why it has ended.
func (r *Renewed) Err() error {
	err := r.Context.Err()
	if err != nil && context.Cause(r.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

// Renew gives the request its whole time again.
func (r *Renewed) Renew() {
	if r.timer != nil {
		r.timer.Reset(r.limit)
	}
}

// End ends it.
func (r *Renewed) End() {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.cancel(nil)
}
