package sched

import (
	"cmp"
	"slices"
	"time"
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

// levels are the priority levels that have waiting jobs, and some that had, in the order in which they are served. A model may have any
// number of them: those without jobs are forgotten while there are more than keptLevels.
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
	at, found := slices.BinarySearchFunc(l.list, number, func(have *level, want uint64) int { return cmp.Compare(have.number, want) })
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
