package sched

import "time"

// level holds the waiting jobs of one priority. Jobs that are overdue under the action DELAY wait behind the others.
type level struct {
	policy  policy
	room    *room
	fresh   fifo
	late    fifo
	soonest time.Time // no job of fresh is overdue before; zero: none is ever
}

// room counts waiting jobs against a bound. Levels without a bound of their own share one.
type room struct{ limit, used int }

// newLevels makes one level for each policy, the highest priority first.
func newLevels(policies []policy, maxQueue int) []level {
	shared := &room{limit: max(maxQueue, 1)}
	levels := make([]level, len(policies))
	for i, p := range policies {
		levels[i] = level{policy: p, room: shared}
		if p.maxQueue > 0 {
			levels[i].room = &room{limit: p.maxQueue}
		}
	}
	return levels
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
