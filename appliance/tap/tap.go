// Package tap hands copies of clients' requests that have ended to subscribers.
package tap

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// MaxBytes bounds the tensors of all requests that are copied and not yet received. A request that does not fit in what
// is left is dropped for its subscribers.
const MaxBytes = 64 << 20

// Tap hands copies of clients' requests that have ended to subscribers. A request is copied once, into memory that is
// used again, only when a subscriber wants it, and before its frontend releases its tensors; all else happens after
// that, in goroutines of the subscribers. Without subscribers it costs one load. It is safe for concurrent use.
type Tap struct {
	memory *blocks.Memory

	mu   sync.Mutex // guards changes of list
	list atomic.Pointer[[]*Subscription]
}

// Subscriber says which requests somebody wants, and receives them.
type Subscriber struct {
	// Wants tells whether a request that ended with err is wanted. It is called for every request of a client, in its
	// goroutine and before its answer is sent: it neither waits nor allocates. A sampled share is taken here.
	Wants func(id edgewise.ModelID, err error) bool
	// Receive gets a request; its tensors are read only until it returns. It is called by Workers goroutines at once.
	Receive func(f *Finished)
	Queue   int // requests that may wait for Receive; further ones are dropped. At least 1
	Workers int // 0: 1
}

// Subscription is a Subscriber that receives requests.
type Subscription struct {
	Subscriber
	tap      *Tap
	queue    chan *tapped
	stop     chan struct{}
	workers  sync.WaitGroup
	received atomic.Uint64
	dropped  atomic.Uint64

	mu     sync.Mutex // guards closed, and that nothing is queued after it
	closed bool
}

// tapped is a copy of a request, for several subscriptions.
type tapped struct {
	Finished
	block *blocks.Block // of the tensors
	users atomic.Int32
}

// end ends one use of the copy.
func (c *tapped) end() {
	if c.users.Add(-1) == 0 {
		c.block.Free()
	}
}

// Subscribe begins to hand requests to s, until the Subscription is closed.
func (t *Tap) Subscribe(s Subscriber) *Subscription {
	sub := &Subscription{Subscriber: s, tap: t, queue: make(chan *tapped, max(1, s.Queue)), stop: make(chan struct{})}
	for range max(1, s.Workers) {
		sub.workers.Go(sub.run)
	}
	t.change(func(list []*Subscription) []*Subscription { return append(list, sub) })
	return sub
}

// change replaces the list of subscriptions, nil for an empty one.
func (t *Tap) change(next func([]*Subscription) []*Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Subscription
	if now := t.list.Load(); now != nil {
		list = slices.Clone(*now)
	}
	if list = next(list); len(list) == 0 {
		t.list.Store(nil)
		return
	}
	t.list.Store(&list)
}

// Counts returns how many requests were received, and how many were wanted and dropped.
func (s *Subscription) Counts() (received, dropped uint64) {
	return s.received.Load(), s.dropped.Load()
}

// Close ends the subscription. Requests that wait are dropped; it returns when no Receive runs. It may be called more
// than once, and not by Receive.
func (s *Subscription) Close() {
	s.tap.change(func(list []*Subscription) []*Subscription {
		return slices.DeleteFunc(list, func(other *Subscription) bool { return other == s })
	})
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.workers.Wait()
	for {
		select {
		case c := <-s.queue:
			s.dropped.Add(1)
			c.end()
		default:
			return
		}
	}
}

// run receives requests until the subscription is closed.
func (s *Subscription) run() {
	for {
		select {
		case <-s.stop:
			return
		case c := <-s.queue:
			s.received.Add(1)
			s.Receive(&c.Finished)
			c.end()
		}
	}
}

// tell queues a copy, nil for one that found no memory.
func (s *Subscription) tell(c *tapped) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if c != nil {
		c.users.Add(1)
		select {
		case s.queue <- c:
			return
		default:
			c.end()
		}
	}
	s.dropped.Add(1)
}

// New returns a Tap without subscribers, which copies at most most bytes of tensors at a time.
func New(most int64) *Tap { return &Tap{memory: blocks.New(most)} }

// On tells whether there are subscribers.
func (t *Tap) On() bool { return t.list.Load() != nil }

// Offer hands a request that has ended to the subscribers that want it, before its tensors and those of its response
// are released. f is only read; its Response is one that was not released, or nil. A
// request to a decoupled model is dropped.
func (t *Tap) Offer(f Finished) {
	list := t.list.Load()
	if list == nil {
		return
	}
	var c *tapped
	for _, s := range *list {
		switch {
		case !s.Wants(f.Model, f.Err):
		case f.Decoupled, len(s.queue) == cap(s.queue): // a copy takes time of the client's
			s.dropped.Add(1)
		default:
			if c == nil {
				c = t.copy(&f)
			}
			s.tell(c)
		}
	}
	if c != nil {
		c.end()
	}
}

// copy copies a request with its response; the caller ends the copy's first use. It returns nil when there is no room.
func (t *Tap) copy(f *Finished) *tapped {
	var outputs []edgewise.Tensor
	if f.Response != nil {
		outputs = f.Response.Outputs
	}
	block := t.memory.Take(tensorBytes(f.Request.Inputs) + tensorBytes(outputs))
	if block == nil {
		return nil
	}
	c := &tapped{Finished: *f, block: block}
	c.users.Store(1)
	room := block.Bytes
	c.Request.Inputs, room = copyTensors(f.Request.Inputs, room)
	c.Request.Outputs = slices.Clone(f.Request.Outputs)
	c.Request.Each, c.Request.Stop = nil, nil // those of a client that is gone
	if f.Response != nil {
		resp := *f.Response
		resp.Free = nil
		resp.Outputs, _ = copyTensors(outputs, room)
		c.Response = &resp
	}
	return c
}

// tensorBytes returns the bytes that copyTensors takes.
func tensorBytes(list []edgewise.Tensor) (n int64) {
	for i := range list {
		n += alignedSize(len(list[i].Data))
	}
	return n
}

// alignedSize returns n, rounded up so that the next tensor is aligned.
func alignedSize(n int) int64 {
	return (int64(n) + blocks.Alignment - 1) &^ (blocks.Alignment - 1)
}

// copyTensors copies tensors into the beginning of room, each aligned, and returns the rest of it.
func copyTensors(list []edgewise.Tensor, room []byte) ([]edgewise.Tensor, []byte) {
	copies := make([]edgewise.Tensor, len(list))
	for i := range list {
		from := &list[i]
		n := copy(room, from.Data)
		copies[i] = edgewise.Tensor{Name: from.Name, Type: from.Type, Shape: slices.Clone(from.Shape), Data: room[:n:n]}
		room = room[alignedSize(n):]
	}
	return copies, room
}
