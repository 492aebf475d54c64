package sched

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// level holds the waiting jobs of one priority. Jobs that are overdue under the action DELAY wait behind the others.
type level struct {
	number  uint64
	policy  policy
	room    *room
	fresh   fifo
	late    fifo
	soonest time.Time // no job of fresh is overdue before; zero: none is ever
}

// room counts waiting jobs against a bound. Levels without a bound of their own share one.
type room struct{ limit, used int }

// levels are the priority levels that have waiting jobs, and some that had, in the order in which they are served. A
// model may have any number of them: those without jobs are forgotten while there are more than keptLevels.
type levels struct {
	policies *policies
	shared   *room
	most     int      // waiting jobs of all levels together
	list     []*level // by number
}

// countedLevels bounds the jobs of all levels together: those of so many levels whose queues have a size of their own.
const countedLevels = 256

// keptLevels is how many levels stay when their jobs have gone.
const keptLevels = 16

func newLevels(p *policies, maxQueue int) levels {
	l := levels{policies: p, shared: &room{limit: max(maxQueue, 1)}}
	largest := p.usual.maxQueue
	for _, own := range p.own {
		largest = max(largest, own.maxQueue)
	}
	l.most = l.shared.limit + int(min(p.levels, countedLevels))*largest
	return l
}

// get returns the level of a number.
func (l *levels) get(number uint64) *level {
	at, found := slices.BinarySearchFunc(
		l.list, number, func(have *level, want uint64) int { return cmp.Compare(have.number, want) },
	)
	if found {
		return l.list[at]
	}
	added := &level{number: number, policy: l.policies.of(number), room: l.shared}
	if added.policy.maxQueue > 0 {
		added.room = &room{limit: added.policy.maxQueue}
	}
	l.list = slices.Insert(l.list, at, added)
	return added
}

// remove takes a waiting job out of its level.
func (l *levels) remove(j *job) {
	at := l.get(j.level)
	at.remove(j)
	if len(l.list) > keptLevels && at.fresh.first == nil && at.late.first == nil {
		l.list = slices.DeleteFunc(l.list, func(have *level) bool { return have == at })
	}
}

func (l *level) append(j *job) {
	l.room.used++
	l.fresh.append(j)
	if l.policy.delays && !j.overdue.IsZero() && (l.soonest.IsZero() || j.overdue.Before(l.soonest)) {
		l.soonest = j.overdue
	}
}

func (l *level) remove(j *job) {
	l.room.used--
	j.list.remove(j)
}

// age moves overdue jobs behind the others, in order.
func (l *level) age(now time.Time) {
	if l.soonest.IsZero() || now.Before(l.soonest) {
		return
	}
	l.soonest = time.Time{}
	for j := l.fresh.first; j != nil; {
		next := j.next
		switch {
		case j.overdue.IsZero():
		case !now.Before(j.overdue):
			l.fresh.remove(j)
			l.late.append(j)
		case l.soonest.IsZero() || j.overdue.Before(l.soonest):
			l.soonest = j.overdue
		}
		j = next
	}
}

// actionDelay is the timeout_action that keeps overdue requests.
const actionDelay = "DELAY"

// policy is what a queue policy of a model says of one priority level.
type policy struct {
	maxQueue       int           // 0: engine.max_queue, which all such levels share
	defaultTimeout time.Duration // in the queue; 0: none
	override       bool          // a request may shorten it
	delays         bool          // overdue requests wait behind the others; otherwise they are refused
}

// policies are the policies of a model's priority levels, of which there may be any number. Level 1 is served first.
type policies struct {
	levels   uint64            // at least 1
	standard uint64            // of requests without a priority, or with one that does not exist
	usual    policy            // of every level that is not in own
	own      map[uint64]policy // by level
}

func policiesOf(m *edgewise.Model) *policies {
	p := &policies{levels: 1, standard: 1}
	b := m.DynamicBatching
	if b == nil {
		return p
	}
	p.levels, p.standard, p.usual = max(b.PriorityLevels, 1), max(b.DefaultPriorityLevel, 1), policyOf(
		b.DefaultQueuePolicy,
	)
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
	if errors.Is(err, ErrFull) {
		kind = edgewise.Busy
	}
	return &edgewise.Error{Op: "sched.Infer", Kind: kind, Model: s.version.ID, Err: err}
}

// fifo is a list of waiting jobs, linked through the jobs themselves.
type fifo struct{ first, last *job }

func (f *fifo) append(j *job) {
	j.list, j.prev, j.next = f, f.last, nil
	if f.last == nil {
		f.first = j
	} else {
		f.last.next = j
	}
	f.last = j
}

func (f *fifo) remove(j *job) {
	if j.prev == nil {
		f.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		f.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.list, j.prev, j.next = nil, nil, nil
}
