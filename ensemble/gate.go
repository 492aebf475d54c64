package ensemble

import (
	"context"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// gate lets a number of requests of one step through at a time, in the order in which they came.
type gate struct {
	tokens  chan struct{} // one for each request inside; nil: no bound
	waiting atomic.Int64
	most    int64 // that may wait
}

func newGate(inflight uint32, most int) *gate {
	if inflight == 0 {
		return &gate{}
	}
	return &gate{tokens: make(chan struct{}, inflight), most: int64(most)}
}

// enter waits for room. Errors: Busy when too many wait already, ctx's. waited tells whether there was no room at once.
func (g *gate) enter(ctx context.Context) (waited bool, err error) {
	if g.tokens == nil {
		return false, nil
	}
	select {
	case g.tokens <- struct{}{}:
		return false, nil
	default:
	}
	if g.waiting.Add(1) > g.most {
		g.waiting.Add(-1)
		return false, edgewise.Errorf("ensemble.enter", edgewise.Busy, "max_inflight_requests is reached and %d requests wait already", g.most)
	}
	defer g.waiting.Add(-1)
	select {
	case g.tokens <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (g *gate) leave() {
	if g.tokens != nil {
		<-g.tokens
	}
}
