package httpapi

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// revokeGrace is how long a request may go on whose caller was revoked, to say so in its answer. Then its connection is
// cut.
const revokeGrace = 500 * time.Millisecond

// holder is a caller as long as a connection is used by it.
type holder struct {
	lifetime context.Context
	stop     func() bool // ends the wait for the end of the lifetime
}

// held is what a connection knows of its callers.
type held struct {
	// of the request in progress, until its answer has left; nil: nobody, or one that cannot be revoked
	now  atomic.Pointer[holder]
	last atomic.Pointer[holder] // of the last request
	done atomic.Pointer[func()] // ends the request where its answer is a stream
}

// hold ends the request in progress within a second of the revocation of its caller, whatever it does then: it waits
// for a model, its body is read, or its answer is written.
func (c *conn) hold(p *edgewise.Principal) {
	c.letGo()
	if p == nil || p.Lifetime == nil {
		return
	}
	c.answered = false // so that reading the body does not count as the end of this answer
	h := c.held.last.Load()
	if h == nil || h.lifetime != p.Lifetime {
		h = &holder{lifetime: p.Lifetime}
		h.stop = context.AfterFunc(p.Lifetime, func() { c.revoke(h) })
		if old := c.held.last.Swap(h); old != nil {
			old.stop()
		}
	}
	c.held.now.Store(h)
	if h.lifetime.Err() != nil { // maybe before it was stored
		go c.revoke(h)
	}
}

// letGo notes that the answer to the last request has left.
func (c *conn) letGo() {
	if c.held.now.Load() != nil {
		c.held.now.Store(nil)
	}
	if c.held.done.Load() == nil {
		return
	}
	if done := c.held.done.Swap(nil); done != nil {
		(*done)()
	}
}

// revoke ends what the connection does for h.
func (c *conn) revoke(h *holder) {
	if c.held.now.Load() != h {
		return
	}
	c.waiting.end(context.Cause(h.lifetime))
	time.AfterFunc(revokeGrace, func() {
		if c.held.now.Load() == h {
			_ = c.Conn.Close()
		}
	})
}

// revoked returns why the caller of the request in progress was revoked, nil when it was not.
func (c *conn) revoked() error {
	if h := c.held.now.Load(); h != nil && h.lifetime.Err() != nil {
		return context.Cause(h.lifetime)
	}
	return nil
}
