package sched

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

var (
	errFull    = errors.New("Exceeds maximum queue size")                              //nolint:staticcheck // Triton's text, which clients match
	errTimeout = errors.New("Request timeout expired")                                 //nolint:staticcheck // Triton's text, which clients match
	errClosed  = errors.New("the version is being unloaded and takes no new requests") // only seen when a lookup raced an unload
)

// job is one request inside the scheduler. Its fields are written by the goroutine of Infer until push, by one lane
// from pop until done is closed, and by Infer's goroutine again after that or after a successful remove.
type job struct {
	ctx      context.Context
	inputs   []edgewise.Tensor // in the model's order and shapes
	want     []string
	batch    int // elements on dimension 0, 1 for models that do not batch
	arrived  time.Time
	started  time.Time
	result   *edgewise.Result
	err      error
	done     chan struct{}
	prev     *job // the queue's links, guarded by its mutex
	next     *job
	enqueued bool
}

// queue is a bounded FIFO from which a waiting job can be withdrawn.
type queue struct {
	limit int

	mu     sync.Mutex // guards what follows
	ready  sync.Cond  // signalled when a job is added or the queue is closed
	first  *job
	last   *job
	size   int
	closed bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.ready.L = &q.mu
	return q
}

// push adds j at the end, or returns errFull or errClosed.
func (q *queue) push(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errClosed
	case q.size >= q.limit:
		return errFull
	}
	j.prev, j.enqueued = q.last, true
	if q.last == nil {
		q.first = j
	} else {
		q.last.next = j
	}
	q.last = j
	q.size++
	q.ready.Signal()
	return nil
}

// pop waits for the first job and takes it. It returns nil when the queue is closed and empty.
func (q *queue) pop() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first == nil && !q.closed {
		q.ready.Wait()
	}
	j := q.first
	if j != nil {
		q.unlink(j)
	}
	return j
}

// remove withdraws j and tells whether it was still queued.
func (q *queue) remove(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !j.enqueued {
		return false
	}
	q.unlink(j)
	return true
}

func (q *queue) unlink(j *job) {
	if j.prev == nil {
		q.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		q.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.prev, j.next, j.enqueued = nil, nil, false
	q.size--
}

// close refuses further jobs and wakes every waiting lane.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}
