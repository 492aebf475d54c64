package backend

import (
	"context"
	"errors"

	"github.com/edgewise-ai/edgewise"
)

// Incoming is a request in the hands of a backend. Its methods are called by one goroutine at a time.
type Incoming struct {
	Request
	Inputs []edgewise.Tensor // in shared memory: read only, and until the final responses of its batch

	server  *Server
	number  uint64
	ctx     context.Context
	cancel  context.CancelFunc
	batch   *batch
	untaken int // guarded by Server.mu
	closed  bool
}

// Context ends when nobody waits for the request any more. It is answered nevertheless.
func (c *Incoming) Context() context.Context { return c.ctx }

// Input returns an input by its name, nil when the request has none of it.
func (c *Incoming) Input(name string) *edgewise.Tensor {
	for i := range c.Inputs {
		if c.Inputs[i].Name == name {
			return &c.Inputs[i]
		}
	}
	return nil
}

// Wants tells whether an output is asked for.
func (c *Incoming) Wants(name string) bool {
	for _, wanted := range c.Wanted {
		if wanted == name {
			return true
		}
	}
	return len(c.Wanted) == 0
}

// Outgoing is a response that is being made. It is sent or dropped.
type Outgoing struct {
	Outputs    []edgewise.Tensor
	Parameters map[string]any

	call   *Incoming
	placed []Tensor
	at     uint64
}

// Response makes a response of outputs. Those without Data get memory of their size, which the caller fills in before
// Send; Data of others is copied. It waits while MaxUntaken responses of the request, or a full memory, were not taken.
func (c *Incoming) Response(outputs ...edgewise.Tensor) (*Outgoing, error) {
	placed, at, err := c.server.lay(c.ctx, c, outputs)
	if err != nil {
		return nil, err
	}
	return &Outgoing{Outputs: outputs, call: c, placed: placed, at: at}, nil
}

// Drop gives up a response that is not sent.
func (o *Outgoing) Drop() { _ = o.call.server.wasTaken(o.at) }

// errClosed says that a request has its final response.
var errClosed = errors.New("the request was answered with a final response before")

// Send sends a response. Nothing may follow a final one.
func (c *Incoming) Send(o *Outgoing, final bool) error {
	return c.answer(&response{c.number, Answer{Final: final, Parameters: o.Parameters, Outputs: o.placed}})
}

// End ends the responses of a decoupled model.
func (c *Incoming) End() error {
	return c.answer(&response{c.number, Answer{Final: true, Empty: true}})
}

// Fail answers the request with an error, which is final.
func (c *Incoming) Fail(err error) error {
	return c.answer(&response{c.number, Answer{Final: true, Error: ErrorOf(err)}})
}

// FailOne answers the request of a decoupled model with an error that others may follow.
func (c *Incoming) FailOne(err error) error {
	return c.answer(&response{c.number, Answer{Error: ErrorOf(err)}})
}

func (c *Incoming) answer(r *response) error {
	if c.closed {
		return errClosed
	}
	frame, err := appendResponse(nil, r)
	if err != nil {
		return err
	}
	c.closed = r.Final
	return c.server.send(c, frame, r.Final)
}
