package backend

import (
	"sync"
	"time"
)

// The goroutine that executes batches also reads the socket, so that a batch wakes one thread and no second one. While it
// executes for longer than reliefTime, or waits for something that the server sends, another goroutine reads.

// reliefTime is how long a batch may take before another goroutine reads, in which nothing is seen of a CANCEL or a PING.
const reliefTime = 2 * time.Millisecond

// turn says who reads the socket.
type turn struct {
	mu      sync.Mutex
	changed *sync.Cond
	taken   bool // somebody reads
	ended   bool // by STOP, or the connection has ended
	run     *Run // that the other goroutine has read
}

// next returns the next batch, nil when there is none any more.
func (s *Server) next() *Run {
	t := &s.turn
	t.mu.Lock()
	for t.run == nil && t.taken && !t.ended {
		t.changed.Wait() // the other goroutine reads until the next batch
	}
	run, ended := t.run, t.ended
	t.run = nil
	t.taken = t.taken || run == nil && !ended
	t.mu.Unlock()
	if run != nil || ended {
		return run
	}
	run = s.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken, t.ended = false, t.ended || run == nil
	return run
}

// relieve reads until the next batch, which it hands over, unless somebody else reads.
func (s *Server) relieve() {
	t := &s.turn
	t.mu.Lock()
	idle := !t.taken && !t.ended
	t.taken = t.taken || idle
	t.mu.Unlock()
	if !idle {
		return
	}
	run := s.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run, t.taken, t.ended = run, false, run == nil
	t.changed.Broadcast()
}

// read reads until the next batch. It returns nil after STOP, and at the end of the connection.
func (s *Server) read() *Run {
	for {
		k, body, err := s.socket.next()
		var run *Run
		if err == nil {
			run, err = s.frame(k, body)
		}
		if err != nil {
			s.over()
			return nil
		}
		if run != nil || k == KindStop {
			return run
		}
	}
}

// awaitFrames says that the caller waits for something that the server sends.
func (s *Server) awaitFrames() { s.relief.Reset(0) }
