// Package ordering lets requests enter their queues in the order of their arrival.
package ordering

import (
	"context"
	"sync"
)

// Order lets requests that arrived one after the other enter their queues one after the other, though each has a
// goroutine of its own. The zero value is an order without requests. It holds one Place for each request that has
// arrived and has neither entered a queue nor ended. It is safe for concurrent use.
type Order struct {
	mu          sync.Mutex // guards the fields below and those of all places
	first, last *Place
}

// Place is the place of one request in an Order. Whoever makes one leaves it when the request ends, however that ends:
// those behind it wait for that.
type Place struct {
	order      *Order
	prev, next *Place
	state      placeState
	head       chan struct{} // closed when the place is the first one; nil until a request waits for that
}

type placeState int

const (
	placeNew placeState = iota
	placeTaken
	placeLeft
)

// NewPlace makes a place that is not in the order yet.
func (o *Order) NewPlace() *Place { return &Place{order: o} }

// Take puts the place at the end of the order. It does nothing the second time, and after Leave.
func (p *Place) Take() {
	p.order.mu.Lock()
	defer p.order.mu.Unlock()
	p.take()
}

func (p *Place) take() {
	if p.state != placeNew {
		return
	}
	o := p.order
	p.state, p.prev = placeTaken, o.last
	if o.last == nil {
		o.first = p
	} else {
		o.last.next = p
	}
	o.last = p
}

// Wait takes the place unless that was done, and returns when every place before it has been left, or with ctx's error.
func (p *Place) Wait(ctx context.Context) error {
	p.order.mu.Lock()
	p.take()
	if p.state == placeLeft || p.order.first == p {
		p.order.mu.Unlock()
		return nil
	}
	if p.head == nil {
		p.head = make(chan struct{})
	}
	head := p.head
	p.order.mu.Unlock()
	select {
	case <-head:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave lets those behind go on. It may be called more than once.
func (p *Place) Leave() {
	o := p.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.state == placeTaken {
		p.unlink()
		if o.first != nil && o.first.head != nil && p.prev == nil {
			close(o.first.head)
			o.first.head = nil
		}
	}
	p.state, p.prev, p.next = placeLeft, nil, nil
}

func (p *Place) unlink() {
	o := p.order
	if p.prev == nil {
		o.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		o.last = p.prev
	} else {
		p.next.prev = p.prev
	}
}

type queuedKey struct{}

// WithQueued returns a context for a request. f is called when the request has entered its queue: from then on no later
// request can overtake it. f may be called more than once, and by any goroutine; nil: nothing is called.
func WithQueued(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, queuedKey{}, f)
}

// Queued reports that the request under ctx has entered its queue. Each Servable calls it before it waits for anything.
func Queued(ctx context.Context) {
	if f, ok := ctx.Value(queuedKey{}).(func()); ok && f != nil {
		f()
	}
}
