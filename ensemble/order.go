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
