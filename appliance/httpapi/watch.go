package httpapi

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// The HTTP library does not say when a client goes away while its request waits or runs. So a server with such requests
// looks at the sockets of those that have been there for at least one interval; the others cost two atomic additions.

const (
	// watchInterval is how often sockets are looked at: a request is canceled one to two intervals after its client left.
	watchInterval = 25 * time.Millisecond
	// watchIdle is after how many intervals without a request the looking stops, until the next request.
	watchIdle = 40
)

// waiting is what a connection knows about its request in progress.
type waiting struct {
	turn atomic.Uint64 // odd while a request waits for its answer; counts up with each change
	seen uint64        // turn as the watcher saw it last; the watcher's own

	mu     sync.Mutex // guards the fields below
	parent context.Context
	ctx    context.Context // of parent; ends when the client goes away. Kept for the next request with the same parent
	cancel context.CancelCauseFunc
}

// watch returns a context that ends with parent, and when the client closes its connection or its side of it. The
// socket is looked at until unwatch is called.
func (c *conn) watch(parent context.Context) context.Context {
	w := &c.waiting
	w.mu.Lock()
	if w.parent != parent {
		if w.cancel != nil {
			w.cancel(nil)
		}
		w.parent = parent
		w.ctx, w.cancel = context.WithCancelCause(parent)
	}
	ctx := w.ctx
	w.mu.Unlock()
	w.turn.Add(1)
	return ctx
}

// unwatch ends what watch began.
func (c *conn) unwatch() { c.waiting.turn.Add(1) }

// gone ends the context of the request in progress, whose client has left.
func (w *waiting) gone() { w.end(nil) }

// end ends the context of the request in progress. The next one has another.
func (w *waiting) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel(cause)
		w.parent, w.cancel = nil, nil
	}
}

// look cancels the request of a connection that has waited since the last look and whose client has left. It tells
// whether a request is in progress.
func (c *conn) look() bool {
	w := &c.waiting
	turn := w.turn.Load()
	if turn%2 == 1 && turn == w.seen && left(c.Conn) && w.turn.Load() == turn {
		w.gone()
	}
	w.seen = turn
	return turn%2 == 1
}

// watcher looks at connections for as long as there are requests.
type watcher struct{ on atomic.Bool }

// begin starts looking unless that is going on. It ends by itself, or with ctx.
func (w *watcher) begin(ctx context.Context, look func() bool) {
	if w.on.Swap(true) {
		return
	}
	go w.run(ctx, look)
}

func (w *watcher) run(ctx context.Context, look func() bool) {
	defer w.on.Store(false)
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for idle := 0; idle < watchIdle; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if look() {
			idle = 0
		} else {
			idle++
		}
	}
}

// lookAll looks at every connection and tells whether any has a request in progress.
func (s *Server) lookAll() bool {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	busy := false
	for _, l := range listeners {
		for _, c := range l.open() {
			busy = c.look() || busy
		}
	}
	return busy
}

// open returns the connections that are open now.
func (l *listener) open() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

// span bounds inferences. Those that begin shortly after one another share a context, since making and ending one for
// each took more than reading a small request: they get the timeout, and up to a slackShare of it more. A context ends
// by itself when its time is over, or when base does.
type span struct {
	base    context.Context
	timeout time.Duration // 0: none
	latest  atomic.Pointer[shared]
}

// shared is the context of the inferences that begin before a time.
type shared struct {
	ctx    context.Context
	cancel context.CancelFunc
	before time.Time
}

// begin returns the context of an inference that begins now.
func (s *span) begin(now time.Time) context.Context {
	if s.timeout == 0 {
		return s.base
	}
	if l := s.latest.Load(); l != nil && now.Before(l.before) {
		return l.ctx
	}
	next := &shared{before: now.Add(s.timeout / slackShare)}
	next.ctx, next.cancel = context.WithDeadline(s.base, next.before.Add(s.timeout))
	s.latest.Store(next)
	return next.ctx
}
