package sched

import (
	"context"
	"sync/atomic"
)

// group is what the jobs of one batch have in common: a context that ends when nobody waits for any of them.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	gone   atomic.Int32 // jobs whose clients have gone, or that were dropped
	size   atomic.Int32 // jobs of the batch; 0: not known yet
}

func newGroup() *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// abandon notes that nobody waits for j any more. It counts once, whoever calls it.
func (g *group) abandon(j *job) {
	if j.gone.CompareAndSwap(false, true) {
		g.gone.Add(1)
		g.settle()
	}
}

// start sets how many jobs were taken together.
func (g *group) start(jobs int) {
	g.size.Store(int32(jobs))
	g.settle()
}

func (g *group) settle() {
	if n := g.size.Load(); n > 0 && g.gone.Load() >= n {
		g.cancel()
	}
}
