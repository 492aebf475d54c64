package sched

import (
	"errors"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// actionDelay is the timeout_action that keeps overdue requests.
const actionDelay = "DELAY"

// policy is what a queue policy of a model says of one priority level.
type policy struct {
	maxQueue       int           // 0: the box's bound, which all such levels share
	defaultTimeout time.Duration // in the queue; 0: none
	override       bool          // a request may shorten it
	delays         bool          // overdue requests wait behind the others; otherwise they are refused
}

// policiesOf returns the policy of each priority level, the highest first, and the index of the default level.
func policiesOf(m *edgewise.Model) (policies []policy, standard int) {
	b := m.DynamicBatching
	if b == nil {
		return []policy{{}}, 0
	}
	policies = make([]policy, max(b.PriorityLevels, 1))
	for i := range policies {
		policies[i] = policyOf(b.DefaultQueuePolicy)
		if q, ok := b.PriorityQueuePolicy[strconv.Itoa(i+1)]; ok {
			policies[i] = policyOf(&q)
		}
	}
	return policies, levelOf(b.DefaultPriorityLevel, len(policies), 0)
}

func policyOf(q *edgewise.QueuePolicy) policy {
	if q == nil {
		return policy{}
	}
	return policy{
		maxQueue: int(q.MaxQueueSize), defaultTimeout: time.Duration(q.DefaultTimeout) * time.Microsecond,
		override: q.AllowTimeoutOverride, delays: q.TimeoutAction == actionDelay,
	}
}

// levelOf returns the index of a priority's level; standard for 0 and what lies outside.
func levelOf(priority uint64, levels, standard int) int {
	if priority == 0 || priority > uint64(levels) {
		return standard
	}
	return int(priority - 1)
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
