package runner

import (
	"context"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// restReason is why a child that rests is not there.
const restReason = "it has given its memory up and is loaded by the next request"

var _ edgewise.Resident = (*Instance)(nil)

// OnDemand makes Rest possible for an instance that shares its child with no other.
func (i *Instance) OnDemand(c edgewise.Claims) {
	if i.group.name == "" {
		i.claims.Store(&c)
	}
}

// Used tells when the last run began, how many there were, and whether one is in progress or waits for the child.
func (i *Instance) Used() (last time.Time, runs int64, busy bool) {
	i.group.mu.Lock()
	defer i.group.mu.Unlock()
	p := i.group.process
	return time.Unix(0, i.used.Load()), i.stats.runs.Load(), i.group.waking != nil || p != nil && len(p.slots) > 0
}

// Takes returns what the child has for itself in memory: nothing that it shares with other processes.
func (i *Instance) Takes() (now, most int64) {
	p, err := i.alive()
	if err != nil {
		return 0, 0
	}
	now, _ = host.ProcessBytes("/", p.PID, host.Private)
	peak, _ := host.ProcessBytes("/", p.PID, host.Peak)
	all, _ := host.ProcessBytes("/", p.PID, host.Resident)
	return now, max(now, peak-(all-now))
}

// Rest ends the child after the runs that are in it, and those for which it was started. Results that were not freed stay as
// they are. One that has crashed and is to be started again rests instead.
func (i *Instance) Rest() bool {
	g, claims := i.group, i.claims.Load()
	if claims == nil {
		return false
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	if p := g.current(); p != nil {
		p.held.Wait()
	}
	g.mu.Lock()
	p, ended := g.process, make(chan struct{})
	if g.over || g.resting {
		g.mu.Unlock()
		return false
	}
	g.replace(nil, restReason)
	g.resting = true
	g.retiring.Go(func() {
		defer close(ended)
		if p != nil {
			p.users.Wait()
			p.endNow()
		}
	})
	g.mu.Unlock()
	<-ended
	claims.Give()
	return true
}

// scarce tells whether the child is to do without a second copy of its weights, since others have no memory.
func (i *Instance) scarce() bool {
	c := i.claims.Load()
	return c != nil && c.Scarce != nil && c.Scarce()
}

// Resting tells whether the child rests.
func (i *Instance) Resting() bool {
	i.group.mu.Lock()
	defer i.group.mu.Unlock()
	return i.group.resting
}

// waking is the start of a child that rests, for which runs wait. Each of them has its run before the child rests again.
type waking struct {
	done    chan struct{}
	waiters int      // guarded by the group's mutex
	started *process // held for the start itself until then; guarded by that mutex
	process *process // once done is closed, held for each waiter; nil: there is err
	err     error
}

// Wake starts the child that rests, or waits for who does. A run that is given up leaves the start to the others that
// wait, or to the next one.
func (i *Instance) Wake(ctx context.Context) (release func(), err error) {
	g, none := i.group, func() {}
	g.mu.Lock()
	w := g.waking
	if g.resting && g.over {
		defer g.mu.Unlock()
		return none, edgewise.Errorf("runner.Run", edgewise.Unavailable, "model %v: its process is not started any more", i.id)
	}
	if w == nil && g.resting {
		w = &waking{done: make(chan struct{})}
		i.used.Store(time.Now().UnixNano()) // so that it is not the next to rest
		g.waking = w
		g.retiring.Go(func() { i.rise(w) }) // the group ends after it
	}
	if w != nil {
		w.waiters++
	}
	g.mu.Unlock()
	if w == nil {
		return none, nil // the child is there by now, or is gone for good: the run finds out
	}
	select {
	case <-w.done:
		if w.process == nil {
			return none, w.err
		}
		return w.process.held.Done, nil
	case <-ctx.Done():
		w.leave(g)
		return none, ctx.Err()
	}
}

// leave gives up what a waiter has, or would have.
func (w *waking) leave(g *group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.waiters--; w.process != nil {
		w.process.held.Done()
	}
}

// end tells those who wait that the child is there, or that err has kept it from that.
func (w *waking) end(g *group, p *process, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waking = nil; p != nil {
		p.held.Add(w.waiters)
	}
	if w.started != nil {
		w.started.held.Done()
	}
	w.process, w.err = p, err
	close(w.done)
}

// awaitChange returns when a Rest in progress has given the memory back.
func (g *group) awaitChange() {
	g.changing.Lock()
	defer g.changing.Unlock()
}

// rise starts the child for those who wait.
func (i *Instance) rise(w *waking) {
	g := i.group
	start := time.Now()
	ctx, cancel := g.open()
	defer cancel()
	claims := i.claims.Load()
	g.awaitChange()
	err := claims.Take(ctx)
	var p *process
	if err == nil {
		if p, err = g.again(ctx, true); err != nil || p == nil {
			p = nil
			claims.Give()
		}
	}
	if err != nil {
		err = edgewise.Errorf("runner.Run", edgewise.KindOf(err), "model %v: it had given its memory up and cannot be loaded "+
			"again: %w", i.id, err)
	}
	w.end(g, p, err)
	if p != nil {
		claims.Taken(i.Takes()) // from here on it may rest again
		i.stats.wakes.Add(1)
		g.backend.config.Logger.Info("a model was loaded again by a request", "model", i.id.String(), "pid", p.PID, "took",
			time.Since(start).Round(time.Millisecond).String())
	}
}
