package sched

import (
	"slices"

	"github.com/edgewise-ai/edgewise/appliance/sched/waits"
)

// obstacle is why an instance loop cannot run a batch now.
type obstacle uint8

const (
	noObstacle obstacle = iota
	noBatch             // there is nothing to run, or a delay is not over
	noPermit            // the rate limiter has no resources
	noCores             // other versions have the cores
	otherBatch          // the next batch is without the request of the leader
)

// take waits for the next batch and for cores to run it on, and moves its jobs to the instance loop. The batch is
// chosen when the cores are granted. It returns false when the queue is closed and empty, and when there is a loop too
// many. The goroutine of the loop calls it.
func (q *queue) take(l *instanceLoop) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.loops.leave() {
			q.wakeOne() // what woke this one may be for another
			return false
		}
		why := q.try(l, nil)
		switch {
		case why == noObstacle:
			return true
		case why == noBatch && q.closed && q.size == 0:
			return false
		case why == noBatch:
			q.rest(l)
		}
		q.mu.Unlock()
		l.clear(why)
		q.mu.Lock()
	}
}

// lead is take for the goroutine of j, which has claimed l: it does not wait, and takes no batch without j. When it
// returns false, l is idle again, or its own goroutine takes the batch.
func (q *queue) lead(l *instanceLoop, j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	why := q.try(l, j)
	if why != noObstacle && j.list != nil {
		q.waits.Note(&j.waiting, j.arrived)
	}
	switch why {
	case noObstacle:
		return true
	case noBatch:
		q.rest(l)
	default:
		l.wake <- struct{}{}
	}
	return false
}

// led ends what lead began, after the batch was run. The goroutine of the loop runs what has queued meanwhile.
func (q *queue) led(l *instanceLoop) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size > 0 {
		l.wake <- struct{}{}
		return
	}
	q.rest(l)
}

// try is attempt, and notes what requests wait for.
func (q *queue) try(l *instanceLoop, leader *job) obstacle {
	why := q.attempt(l, leader)
	if now := why.hurdle(); now != l.hurdle {
		q.meet(l, now)
	}
	q.waits.Batch(why == noBatch && q.size > 0)
	return why
}

// hurdle is what an obstacle is to the requests that wait.
func (o obstacle) hurdle() waits.Hurdle {
	switch o {
	case noPermit:
		return waits.Limiter
	case noCores:
		return waits.Cores
	}
	return waits.None
}

// meet notes that a hurdle stops an instance loop, or none does.
func (q *queue) meet(l *instanceLoop, h waits.Hurdle) {
	if l.hurdle != waits.None {
		q.waits.Leave(l.hurdle)
	}
	if l.hurdle = h; h != waits.None {
		q.waits.Enter(h)
	}
}

// attempt takes the next batch if nothing is in the way. leader is the request that must be in it; nil: any batch will
// do.
func (q *queue) attempt(l *instanceLoop, leader *job) obstacle {
	for {
		p := q.plan(l)
		switch {
		case p.take == 0:
			l.wakeAfter(p.wait)
			return noBatch
		case p.reason == closedIdle && !l.yielded && q.pace.tiny() && q.yields.due():
			l.yielded = true
			q.yield()
			continue
		case leader != nil && !slices.Contains(l.jobs[:p.take], leader):
			return otherBatch
		case !l.permit.Try():
			return noPermit
		case !l.lease.Try():
			return noCores
		}
		q.hand(l, p)
		return noObstacle
	}
}
