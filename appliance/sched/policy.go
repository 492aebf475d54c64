package sched

import (
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// policy is what a model's default_queue_policy and the box's bounds make together.
type policy struct {
	maxQueue       int
	defaultTimeout time.Duration // in the queue; 0: none
	override       bool          // a request may shorten it
}

func policyOf(m *edgewise.Model, maxQueue int) policy {
	p := policy{maxQueue: max(maxQueue, 1)}
	if m.DynamicBatching == nil || m.DynamicBatching.DefaultQueuePolicy == nil {
		return p
	}
	q := m.DynamicBatching.DefaultQueuePolicy
	if q.MaxQueueSize > 0 {
		p.maxQueue = int(q.MaxQueueSize)
	}
	p.defaultTimeout, p.override = time.Duration(q.DefaultTimeout)*time.Microsecond, q.AllowTimeoutOverride
	return p
}

// timeout returns how long a request may wait, 0 for no bound but its context. Without a configured default the
// request's own timeout counts as it is; Triton would ignore it. With one, it counts as in Triton: when it may override
// and is smaller.
func (p policy) timeout(requested time.Duration) time.Duration {
	switch {
	case p.defaultTimeout == 0:
		return requested
	case p.override && requested > 0 && requested < p.defaultTimeout:
		return requested
	}
	return p.defaultTimeout
}

// refusal turns an error of the queue into what a client sees.
func (s *Scheduler) refusal(err error) error {
	kind := edgewise.Unavailable
	if errors.Is(err, errFull) {
		kind = edgewise.Busy
	}
	return &edgewise.Error{Op: "sched.Infer", Kind: kind, Model: s.version.ID, Err: err}
}

// reasonOf puts a failure into the classes of the failure counter.
func reasonOf(err error) edgewise.FailureReason {
	switch edgewise.KindOf(err) {
	case edgewise.Busy, edgewise.Unavailable:
		return edgewise.FailureRejected
	case edgewise.Canceled, edgewise.Deadline:
		return edgewise.FailureCanceled
	case edgewise.Internal, edgewise.Guest, edgewise.Exhausted:
		return edgewise.FailureBackend
	}
	return edgewise.FailureOther
}
