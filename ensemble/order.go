package ensemble

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
)

// sequences keeps the requests of one sequence apart: the next one begins when the one before has ended, so that steps
// between the ensemble's inputs and the model that keeps the sequence cannot exchange them. The zero value holds none.
type sequences struct {
	mu    sync.Mutex // guards lines
	lines map[edgewise.Sequence]*line
}

// line is the requests of one sequence that are in progress.
type line struct {
	order ordering.Order
	size  int
}

// enter waits for the requests of the same sequence that came before. leave is called when the request has ended, also
// after an error, which is ctx's.
func (s *sequences) enter(ctx context.Context, id edgewise.Sequence) (leave func(), err error) {
	key := edgewise.Sequence{ID: id.ID, Name: id.Name}
	s.mu.Lock()
	if s.lines == nil {
		s.lines = map[edgewise.Sequence]*line{}
	}
	l := s.lines[key]
	if l == nil {
		l = &line{}
		s.lines[key] = l
	}
	l.size++
	place := l.order.NewPlace()
	place.Take()
	s.mu.Unlock()
	ordering.Queued(ctx)
	return func() {
		place.Leave()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.size--; l.size == 0 {
			delete(s.lines, key)
		}
	}, place.Wait(ctx)
}

// queuedSteps returns a function for each of n steps, which says that the step's request has entered its queue, or that
// there is none. When all have, the ensemble's own request has.
func queuedSteps(ctx context.Context, n int) []func() {
	var left atomic.Int64
	left.Store(int64(n))
	list := make([]func(), n)
	for i := range list {
		list[i] = sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				ordering.Queued(ctx)
			}
		})
	}
	return list
}

// gate lets a number of requests of one step through at a time. They enter the queue of the step's model in the order
// in which they came.
type gate struct {
	tokens  chan struct{}  // one for each request inside; nil: no bound
	order   ordering.Order // of those that wait
	present atomic.Int64   // inside and waiting
	most    int64          // that may wait
}

func newGate(inflight uint32, most int) *gate {
	if inflight == 0 {
		return &gate{}
	}
	return &gate{tokens: make(chan struct{}, inflight), most: int64(most)}
}

// entry is a request that a gate has let through.
type entry struct {
	ctx    context.Context // what the request goes on with
	place  *ordering.Place // nil: there is no bound
	waited bool            // there was no room at once
}

// enter waits for room. Errors: Busy when too many wait already, ctx's.
func (g *gate) enter(ctx context.Context) (e entry, err error) {
	if g.tokens == nil {
		return entry{ctx: ctx}, nil
	}
	room, present := int64(cap(g.tokens)), g.present.Add(1)
	if present > room+g.most {
		g.present.Add(-1)
		return e, edgewise.Errorf("ensemble.enter", edgewise.Busy,
			"max_inflight_requests is reached and %d requests wait already", g.most)
	}
	e.waited, e.place = present > room, g.order.NewPlace()
	e.place.Take()
	ordering.Queued(ctx)
	e.ctx = ordering.WithQueued(ctx, e.place.Leave)
	if err = e.place.Wait(ctx); err == nil {
		select {
		case g.tokens <- struct{}{}:
			return e, nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	e.place.Leave()
	g.present.Add(-1)
	return e, err
}

// leave ends a request that was let through.
func (g *gate) leave(e entry) {
	if g.tokens != nil {
		e.place.Leave()
		<-g.tokens
		g.present.Add(-1)
	}
}
