package cache

import (
	"context"
	"sync"
)

// order lets answers leave in the order in which their requests came.
type order struct {
	mu   sync.Mutex
	last chan struct{} // closed once everybody who came so far has left
}

func newOrder() *order {
	o := &order{last: make(chan struct{})}
	close(o.last)
	return o
}

// turn is a request's place.
type turn struct {
	before, own chan struct{}
}

func (o *order) arrive() turn {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := turn{o.last, make(chan struct{})}
	o.last = t.own
	return t
}

// wait returns once everybody before has left, or with ctx's error.
func (t turn) wait(ctx context.Context) error {
	select {
	case <-t.before:
		return nil
	default:
	}
	select {
	case <-t.before:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave lets those behind go once everybody before has gone. It does not wait.
func (t turn) leave() {
	select {
	case <-t.before:
		close(t.own)
	default:
		go func() {
			<-t.before
			close(t.own)
		}()
	}
}
