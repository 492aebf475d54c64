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

// policies are the policies of a model's priority levels, of which there may be any number. Level 1 is served first.
type policies struct {
	levels   uint64            // at least 1
	standard uint64            // of requests that ask for none, or for one that there is not
	usual    policy            // of every level that is not in own
	own      map[uint64]policy // by level
}

func policiesOf(m *edgewise.Model) *policies {
	p := &policies{levels: 1, standard: 1}
	b := m.DynamicBatching
	if b == nil {
		return p
	}
	p.levels, p.standard, p.usual = max(b.PriorityLevels, 1), max(b.DefaultPriorityLevel, 1), policyOf(b.DefaultQueuePolicy)
	for name, q := range b.PriorityQueuePolicy {
		if level, err := strconv.ParseUint(name, 10, 64); err == nil {
			if p.own == nil {
				p.own = map[uint64]policy{}
			}
			p.own[level] = policyOf(&q)
		}
	}
	return p
}

// of returns the policy of a level.
func (p *policies) of(level uint64) policy {
	if own, ok := p.own[level]; ok {
		return own
	}
	return p.usual
}

// level returns the level of a request's priority.
func (p *policies) level(priority uint64) uint64 {
	if priority == 0 || priority > p.levels {
		return p.standard
	}
	return priority
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
