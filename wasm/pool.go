package wasm

import (
	"context"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// strikes is how many guests in a row may fail before the next one is made after a pause only.
const strikes = 4

// pool holds the guests of one version. A guest is idle, running, or borrowed: its memory holds a result. As long as a
// guest is idle or running, it returns by itself, so one guest is never borrowed: requests that wait proceed.
type pool struct {
	p     *program
	size  int
	fresh bool           // a guest is used once: putting it back takes longer, or cannot be done
	aside bool           // putting it back always takes so long that it is done outside the path of requests
	wait  sync.WaitGroup // makers
	done  chan struct{}  // closed by close

	mu       sync.Mutex // guards what follows
	idle     []*guest   // the last used one last: its memory is in the caches
	borrowed int
	waiting  []chan *guest // those who wait, first come first served
	failures int           // in a row
	broken   error         // why no guest will come, under the policy fail
	resumes  time.Time     // when the next guest will be made
	last     error         // the last failure
	closed   bool
}

// newPool makes all guests of p. Whether a guest is put back or replaced is decided by what took less time.
func newPool(ctx context.Context, p *program, size int) (*pool, error) {
	l := &pool{p: p, size: size, done: make(chan struct{})}
	var making time.Duration
	for range size {
		start := time.Now()
		g, err := p.newGuest(ctx)
		if err != nil {
			for _, g := range l.idle {
				g.close()
			}
			return nil, err
		}
		if took := time.Since(start); making == 0 || took < making {
			making = took
		}
		if p.image == nil && !p.settings.stateful && p.module.Restorable {
			p.image = g.keep()
		}
		l.idle = append(l.idle, g)
	}
	if !p.settings.stateful {
		took := never * time.Nanosecond
		if p.module.Restorable {
			took = restoring(l.idle[0])
		}
		l.fresh, l.aside = took > making, took > asideAfter
	}
	return l, nil
}

// asideAfter is what putting a guest back may take inside the path of a request; asideBytes is the memory of a guest
// from which it takes about as long.
const (
	asideAfter = 30 * time.Microsecond
	asideBytes = 512 << 10
)

// restoring measures how long it takes to put a guest back, once its memory has been touched: the least of a few tries,
// since one that was interrupted would have every request of the version pay for a new guest, and for the pages of its
// memory.
func restoring(g *guest) time.Duration {
	least := never * time.Nanosecond
	for range restoreTries {
		start := time.Now()
		g.restore()
		least = min(least, time.Since(start))
	}
	return least
}

const restoreTries = 5

// take returns an idle guest, waiting for one. Errors: Deadline, Canceled, Unavailable (guests failed one after the
// other).
func (l *pool) take(ctx context.Context) (*guest, error) {
	l.mu.Lock()
	if l.closed || l.broken != nil {
		defer l.mu.Unlock()
		return nil, l.refusal()
	}
	if n := len(l.idle); n > 0 {
		g := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return g, nil
	}
	if l.failures > strikes && time.Now().Before(l.resumes) {
		defer l.mu.Unlock()
		return nil, l.refusal()
	}
	ch := make(chan *guest, 1)
	l.waiting = append(l.waiting, ch)
	l.mu.Unlock()
	return l.await(ctx, ch)
}

// refusal says why there will be no guest. The mutex is held.
func (l *pool) refusal() error {
	switch {
	case l.closed:
		return edgewise.Errorf("wasm.Run", edgewise.Unavailable, "step: it is being unloaded")
	case l.broken != nil:
		return edgewise.Errorf("wasm.Run", edgewise.Unavailable,
			"step: it failed and failure_policy is fail, so it does not run until it is loaded again: %w", l.broken)
	}
	pause := max(time.Until(l.resumes), 0).Round(time.Millisecond)
	return edgewise.Errorf("wasm.Run", edgewise.Unavailable,
		"step: paused for %v after %d failures in a row, the last one: %w", pause, l.failures, l.last)
}

func (l *pool) await(ctx context.Context, ch chan *guest) (*guest, error) {
	select {
	case g, ok := <-ch:
		if !ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, l.refusal()
		}
		return g, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for i, other := range l.waiting {
		if other == ch {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			break
		}
	}
	l.mu.Unlock()
	select {
	case g, ok := <-ch: // it came at the same moment
		if ok {
			l.put(g)
		}
	default:
	}
	return nil, edgewise.Errorf("wasm.Run", edgewise.KindOf(ctx.Err()), "step: waiting for a guest: %w", ctx.Err())
}

// put makes a guest that is ready for a request available.
func (l *pool) put(g *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.broken != nil:
		g.close()
	case len(l.waiting) > 0:
		l.waiting[0] <- g
		l.waiting = l.waiting[1:]
	default:
		l.idle = append(l.idle, g)
	}
}

// borrow tells whether a result may stay in the memory of the running guest.
func (l *pool) borrow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.borrowed+1 >= l.size {
		return false
	}
	l.borrowed++
	return true
}

// returned ends a borrow.
func (l *pool) returned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.borrowed--
}

// recycle takes a guest back after a request that it served. Nobody reads its memory any more.
func (l *pool) recycle(g *guest) {
	l.mu.Lock()
	l.failures = 0
	aside := !l.closed && (l.aside || !l.p.settings.stateful && g.memory.size >= asideBytes)
	if aside && !l.fresh {
		l.wait.Go(func() { l.tidy(g) })
	}
	l.mu.Unlock()
	switch {
	case l.fresh:
		l.replace(g, 0)
	case !aside:
		l.tidy(g)
	}
}

// tidy puts a guest back to its state after set-up and makes it available.
func (l *pool) tidy(g *guest) {
	if err := g.tidy(context.Background()); err != nil {
		l.drop(g, err)
		return
	}
	l.put(g)
}

// drop gets rid of a guest that failed, and has its place filled as the policy says.
func (l *pool) drop(g *guest, reason error) {
	kind := edgewise.KindOf(reason)
	if kind == edgewise.Deadline || kind == edgewise.Canceled {
		l.replace(g, 0) // its client's doing
		return
	}
	l.mu.Lock()
	l.failures++
	l.last = reason
	pause := time.Duration(0)
	if n := l.failures - strikes; n > 0 && l.p.config.Pause > 0 {
		pause = min(l.p.config.Pause<<min(n-1, 20), l.p.config.MaxPause)
		l.resumes = time.Now().Add(pause)
	}
	if l.p.settings.policy == halt {
		l.halt(reason)
	}
	broken := l.broken != nil
	l.mu.Unlock()
	if broken {
		g.close()
		return
	}
	l.replace(g, pause)
}

// halt ends the version's service. The mutex is held.
func (l *pool) halt(reason error) {
	if l.broken != nil {
		return
	}
	l.broken = reason
	for _, g := range l.idle {
		g.close()
	}
	for _, ch := range l.waiting {
		close(ch)
	}
	l.idle, l.waiting = nil, nil
}

// replace closes a guest and makes another, after a pause, outside the path of requests.
func (l *pool) replace(g *guest, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		g.close()
		return
	}
	l.wait.Go(func() {
		g.close()
		l.make(pause)
	})
}

// make makes guests until one works or the pool is closed.
func (l *pool) make(pause time.Duration) {
	for {
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-l.done:
				timer.Stop()
				return
			}
		}
		select {
		case <-l.done:
			return
		default:
		}
		g, err := l.p.newGuest(context.Background())
		if err == nil {
			l.put(g)
			return
		}
		l.p.logger.Error("a step's guest cannot be made again", "error", err)
		pause = l.failed(err)
	}
}

// failed counts a guest that could not be made, and returns how long to wait before the next try.
func (l *pool) failed(err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = max(l.failures, strikes) + 1
	l.last = err
	pause := min(max(l.p.config.Pause, time.Millisecond)<<min(l.failures-strikes-1, 20), l.p.config.MaxPause)
	l.resumes = time.Now().Add(pause)
	for _, ch := range l.waiting {
		close(ch)
	}
	l.waiting = nil
	return pause
}

// close closes every guest. None is running or borrowed.
func (l *pool) close() {
	l.mu.Lock()
	l.closed = true
	close(l.done)
	for _, ch := range l.waiting {
		close(ch)
	}
	l.waiting = nil
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	l.wait.Wait()
	for _, g := range idle {
		g.close()
	}
}
