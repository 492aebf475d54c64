package backend

import (
	"context"
	"io"

	"github.com/edgewise-ai/edgewise"
)

// Stream is the responses of another model to a request of a backend's.
type Stream struct {
	server  *Server
	number  uint64
	replies []*Reply      // that have come; guarded by Server.mu
	came    chan struct{} // has a token when one has come, or the connection has ended
	over    bool          // the final one was returned
}

// Exec sends a request to another model. x says which one, and for which call; its inputs are copied from inputs.
func (s *Server) Exec(ctx context.Context, x *Exec, inputs []edgewise.Tensor) (*Stream, error) {
	placed, _, err := s.lay(ctx, nil, append([]edgewise.Tensor{}, inputs...))
	if err != nil {
		return nil, err
	}
	t := &Stream{server: s, came: make(chan struct{}, 1)}
	s.mu.Lock()
	s.numbers++
	t.number = s.numbers
	s.execs[t.number] = t
	s.mu.Unlock()
	x.Exec, x.Inputs = t.number, placed
	frame, err := appendExec(nil, x)
	if err == nil {
		err = s.socket.write(frame)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Number returns the number by which a call asks on behalf of itself; see Exec.Call.
func (c *Incoming) Number() uint64 { return c.number }

// replied hands a reply to its stream.
func (s *Server) replied(r *Reply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.execs[r.Exec]
	if !ok {
		return broken("REPLY to request %d, which is not open", r.Exec)
	}
	if r.Final {
		delete(s.execs, r.Exec)
	}
	t.replies = append(t.replies, r)
	t.end()
	return nil
}

// end wakes the reader.
func (t *Stream) end() {
	select {
	case t.came <- struct{}{}:
	default:
	}
}

// Next returns the next response, whose outputs are the caller's. Errors: io.EOF after the last one, an *Error of the
// other model's, that of ctx.
func (t *Stream) Next(ctx context.Context) (*Reply, []edgewise.Tensor, error) {
	if t.over {
		return nil, nil, io.EOF
	}
	for {
		t.server.mu.Lock()
		ended := t.server.ended
		var r *Reply
		if len(t.replies) > 0 {
			r, t.replies = t.replies[0], t.replies[1:]
		}
		t.server.mu.Unlock()
		if r != nil {
			return t.open(r)
		}
		if ended {
			return nil, nil, errGone
		}
		t.server.awaitFrames()
		select {
		case <-t.came:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// open copies the outputs of a reply and gives their block back.
func (t *Stream) open(r *Reply) (*Reply, []edgewise.Tensor, error) {
	t.over = r.Final
	outputs := make([]edgewise.Tensor, len(r.Outputs))
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if err := t.server.in.check(o); err != nil {
			return nil, nil, broken("a reply: %v", err)
		}
		outputs[i] = edgewise.Tensor{
			Name: o.Name, Type: o.Type, Shape: o.Shape, Data: append([]byte{}, t.server.in.bytes(o)...),
		}
	}
	if at, ok := block(r.Outputs); ok {
		if err := t.server.socket.write(appendNumbers(nil, KindRead, at)); err != nil {
			return nil, nil, err
		}
	}
	if r.Error != nil {
		return r, nil, r.Error
	}
	return r, outputs, nil
}

// Drop says that no more responses are wanted. Next still returns those that come, up to the final one.
func (t *Stream) Drop() error {
	return t.server.socket.write(appendNumbers(nil, KindDrop, t.number))
}
