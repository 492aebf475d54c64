// Package idle waits for time in which no client needs the machine, and ends what is measured then when one does.
package idle

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lookEvery is how often the traffic is looked at: while something is measured, and while that waits.
const (
	lookEvery = 2 * time.Millisecond
	waitEvery = 50 * time.Millisecond
)

// ErrTraffic is why a measurement ended: a client has sent a request.
var ErrTraffic = errors.New("a client has sent a request")

// Watch looks at the traffic of clients, and lets one measurement at a time have the machine. It is safe for concurrent use.
type Watch struct {
	traffic func() (begun, open int64)
	turn    chan struct{} // holds one token while something is measured

	mu    sync.Mutex // guards what follows
	begun int64      // requests of clients when it was looked last
	seen  time.Time  // the latest look that found traffic
}

// New makes a Watch of requests of clients: how many have begun, and how many of them are in progress.
func New(traffic func() (begun, open int64)) *Watch {
	begun, _ := traffic()
	return &Watch{traffic: traffic, turn: make(chan struct{}, 1), begun: begun, seen: time.Now()}
}

// Since looks at the traffic, and returns how long there has been none.
func (w *Watch) Since() time.Duration { return time.Since(w.look()) }

// look returns when the latest look was that found traffic: now, where there is some.
func (w *Watch) look() time.Time {
	begun, open := w.traffic()
	w.mu.Lock()
	defer w.mu.Unlock()
	if open > 0 || begun != w.begun {
		w.begun, w.seen = begun, time.Now()
	}
	return w.seen
}

// Quiet waits until there has been no traffic for so long. Error: ctx's.
func (w *Watch) Quiet(ctx context.Context, quiet time.Duration) error {
	for w.Since() < quiet && ctx.Err() == nil {
		Sleep(ctx, min(waitEvery, quiet))
	}
	return ctx.Err()
}

// Guard waits until nothing else is measured, and returns a context that ends when a client sends a request, with the cause
// ErrTraffic. stop ends the measurement. Where ctx ends first, guarded is over when it is returned.
func (w *Watch) Guard(ctx context.Context) (guarded context.Context, stop func()) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx, func() {}
	}
	before := w.look() // requests that were there before do not count
	guarded, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for guarded.Err() == nil {
			if w.look().After(before) {
				cancel(ErrTraffic)
			}
			Sleep(guarded, lookEvery)
		}
	}()
	return guarded, func() {
		cancel(nil)
		<-done
		<-w.turn
	}
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
