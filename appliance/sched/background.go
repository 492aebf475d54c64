package sched

import (
	"context"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/ordering"
)

// background runs requests in the background (edgewise.Request) one after the other, beside the queue and without a lease
// on cores: the instance gives them the time that no other run wants. So no other request waits for one of them, takes
// fewer cores because of it, or has its time among those that are measured.
type background struct {
	loop *instanceLoop
	turn chan struct{} // has a token while a run is in progress
}

// backgrounder is an Instance that can give way to others.
type backgrounder interface {
	// Background tells whether a run with RunOptions.Background has only time that no other run wants.
	Background() bool
}

// newBackground returns nil for a version whose runs cannot give way: on another device than the CPU, on several threads,
// which all requests share, or with resources of the rate limiter, which are held as long as a run takes.
func newBackground(s *Scheduler, c Config) *background {
	can, ok := s.instance.(backgrounder)
	if !ok || s.answerer != nil || !can.Background() || c.Threads != 1 || c.Claim != nil {
		return nil
	}
	var without *cores.Account
	loop := &instanceLoop{s: s, lease: without.Lease(), gatherer: newGatherer(s.instance), background: true}
	return &background{loop, make(chan struct{}, 1)}
}

// run runs j. Errors: those of the run, ErrClosed, and why ctx has ended.
func (b *background) run(ctx context.Context, j *job) error {
	s := b.loop.s
	if !b.enter() {
		return s.refusal(ErrClosed)
	}
	defer s.loops.Done()
	ordering.Queued(ctx)
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	j.started = time.Now()
	return b.loop.attempt(ctx, []*job{j}, j.started)
}

// enter has Close wait for a run, unless it was called already.
func (b *background) enter() bool {
	q := b.loop.s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		b.loop.s.loops.Add(1)
	}
	return !q.closed
}

// close gives back the memory of runs, which have all ended.
func (b *background) close() {
	if b != nil {
		b.loop.gatherer.release()
	}
}
