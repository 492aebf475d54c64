package backend

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// frame obeys one frame of the backend's.
func (c *Client) frame(k Kind, body []byte) error {
	switch k {
	case KindResponse:
		return c.response(body)
	case KindDone:
		return c.executed(body)
	case KindRead:
		return c.read(body)
	case KindExec:
		return c.exec(body)
	case KindReady:
		return c.isReady(body)
	case KindChecked:
		return c.checked(body)
	case KindDrop:
		exec, err := decodeNumber(k, body)
		if err == nil {
			c.events.Drop(exec)
		}
		return err
	case KindLog:
		level, line, err := decodeLog(body)
		if err == nil {
			c.events.Log(level, line)
		}
		return err
	case KindMetric:
		var m Metric
		err := decodeJSON(k, body, &m)
		if err == nil {
			c.events.Metric(&m)
		}
		return err
	case KindControl:
		var id uint64
		var control Control
		err := decodeJSON(k, body, &control, &id)
		if err == nil {
			c.events.Control(id, &control)
		}
		return err
	case KindPong:
		_, bytes, err := decodePong(body)
		if err == nil {
			c.events.Pong(bytes)
		}
		return err
	}
	return broken("a frame of the unknown kind %d", k)
}

func (c *Client) isReady(body []byte) error {
	r := new(Ready)
	if err := decodeJSON(KindReady, body, r); err != nil {
		return err
	}
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return broken("READY came twice")
	}
	c.ready <- r
	return nil
}

// response checks a response and hands it to its call.
func (c *Client) response(body []byte) error {
	r, err := decodeResponse(body)
	if err != nil {
		return err
	}
	outputs, at, err := c.received(r.Outputs)
	if err != nil {
		return broken("a response: %v", err)
	}
	c.mu.Lock()
	call := c.calls[r.call]
	if call != nil {
		if at != noBlock {
			call.untaken++
		}
		if r.Final {
			call.open = false
			delete(c.calls, r.call)
		}
	}
	tooMany := call != nil && call.untaken > MaxUntaken
	c.mu.Unlock()
	if call == nil || tooMany {
		if at != noBlock {
			c.out.Free(at)
		}
		if tooMany {
			return broken("more than %d responses of a call that were not taken", MaxUntaken)
		}
		return broken("a response to call %d, which is not open: it is unknown or was answered before", r.call)
	}
	answer := &Response{
		Final: r.Final, Empty: r.Empty, Parameters: r.Parameters, Outputs: outputs, Taken: func() { c.taken(call, at) },
	}
	if r.Error != nil {
		answer.Error = r.Error
	}
	call.Answer(answer)
	return nil
}

// received checks the tensors of a message and claims their block.
func (c *Client) received(tensors []Tensor) ([]edgewise.Tensor, uint64, error) {
	at, ok := block(tensors)
	if !ok {
		at = noBlock
	}
	list := make([]edgewise.Tensor, len(tensors))
	for i := range tensors {
		var err error
		if list[i], err = c.out.tensor(&tensors[i]); err != nil {
			return nil, 0, err
		}
	}
	if ok && !c.out.claim(at, extent(tensors)) {
		return nil, 0, fmt.Errorf("its block at %d overlaps one that was not taken", at)
	}
	return list, at, nil
}

func (c *Client) executed(body []byte) error {
	run, err := decodeNumber(KindDone, body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	expected := c.run
	c.run = 0
	c.mu.Unlock()
	if run == 0 || run != expected {
		return broken("DONE for run %d, which is not in progress", run)
	}
	c.done <- run
	return nil
}

// read frees a block of the input memory.
func (c *Client) read(body []byte) error {
	at, err := decodeNumber(KindRead, body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reads[at] {
		return broken("READ of %d, where no inputs stand", at)
	}
	delete(c.reads, at)
	c.vacate(at)
	return nil
}

func (c *Client) exec(body []byte) error {
	x, err := decodeExec(body)
	if err != nil {
		return err
	}
	inputs, at, err := c.received(x.Inputs)
	if err != nil {
		return broken("a request to model %q: %v", x.Model, err)
	}
	c.mu.Lock()
	twice := c.execs[x.Exec]
	c.execs[x.Exec] = true
	c.mu.Unlock()
	if twice {
		return broken("EXEC %d is open already", x.Exec)
	}
	c.events.Exec(x, inputs, func() { c.taken(nil, at) })
	return nil
}
