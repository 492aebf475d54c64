package auth

import (
	"context"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// expiryInterval is how often keys and sessions are looked at whose time may be over.
const expiryInterval = 250 * time.Millisecond

// lifetime is how long a key, a session or the local token holds as it is. Nothing is ended before its first use.
type lifetime struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// context returns what ends with the lifetime.
func (l *lifetime) context() context.Context {
	if l.ctx == nil {
		l.ctx, l.end = context.WithCancelCause(context.Background())
	}
	return l.ctx
}

// over ends what goes on under the lifetime, and begins another one.
func (l *lifetime) over(cause error) {
	if l.end != nil {
		l.end(cause)
	}
	*l = lifetime{}
}

// changed is the cause of an end after which the caller may ask again, with other rights.
func changed(what string) error {
	return edgewise.Errorf("auth.changed", edgewise.Denied, "%s was changed while this was in progress: ask again", what)
}

// Watch ends what goes on under keys and sessions whose time is over, until ctx ends.
func (a *Accounts) Watch(ctx context.Context) {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.expire(time.Now())
		}
	}
}

// expire ends what is over at a time.
func (a *Accounts) expire(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		if k.expired(now) {
			k.life.over(k.expiry())
		}
	}
	if err := a.sweep(now.UTC()); err != nil {
		a.cfg.Log.Warn("a session that has ended was not removed from the disk", "error", err)
	}
}
