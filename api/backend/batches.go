package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// Run sends a batch and returns when the backend takes the next one. Errors: those of Send.
func (c *Client) Run(ctx context.Context, calls []*Call) error {
	if err := c.Send(ctx, calls); err != nil {
		return err
	}
	c.Await(context.Background())
	return nil
}

// Send sends a batch. The next one is sent when Await has returned true; calls may be open then. On an error no call is
// answered: ErrTooLarge, that of ctx while it waits for memory, that of End.
func (c *Client) Send(ctx context.Context, calls []*Call) error {
	run, at, err := c.place(ctx, calls)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.err != nil {
		c.forget(calls, at)
		c.mu.Unlock()
		return c.err
	}
	c.numbers++
	run.Run, c.run = c.numbers, c.numbers
	for i, call := range calls {
		c.numbers++
		call.client, call.number, call.open = c, c.numbers, true
		run.Calls[i].Call = c.numbers
		c.calls[c.numbers] = call
	}
	if at != noBlock {
		c.reads[at] = true
	}
	frames, err := appendRun(c.takes, run)
	if err != nil {
		c.forget(calls, at)
		c.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	c.takes = nil
	for _, call := range calls {
		if call.cancelled {
			frames = appendNumbers(frames, KindCancel, call.number)
		}
	}
	c.mu.Unlock()
	_ = c.write(frames) // a connection that fails ends by Serve, too
	return nil
}

// ErrTooLarge says that a batch does not fit into the input memory or into a frame.
var ErrTooLarge = errors.New("the requests of a batch are too large")

// forget undoes what Run has noted. The caller holds mu.
func (c *Client) forget(calls []*Call, at uint64) {
	for _, call := range calls {
		delete(c.calls, call.number)
		call.open = false
	}
	c.run = 0
	delete(c.reads, at)
	c.vacate(at)
}

// noBlock is the place of a message without bytes.
const noBlock = ^uint64(0)

// place makes the inputs of a batch stand in one block. They are copied there, those of a name one after the other, unless
// they are those of one call in borrowed memory.
func (c *Client) place(ctx context.Context, calls []*Call) (*Run, uint64, error) {
	run := &Run{Joined: true, Calls: make([]RunCall, len(calls))}
	if len(calls) == 1 {
		if at, ok := c.inPlace(calls[0]); ok {
			run.Calls[0].Request = calls[0].Request
			return run, at, nil
		}
	}
	size, most := uint64(0), 0
	for _, call := range calls {
		most = max(most, len(call.Tensors))
		for i := range call.Tensors {
			size += align(uint64(len(call.Tensors[i].Data)))
		}
	}
	at, err := c.room(ctx, size)
	if err != nil {
		return nil, 0, err
	}
	for i, call := range calls {
		call.Inputs = make([]Tensor, len(call.Tensors))
		run.Calls[i].Request = call.Request
	}
	next := at
	for n := range most {
		for i, call := range calls {
			if n >= len(call.Tensors) {
				run.Joined = false
				continue
			}
			t := &call.Tensors[n]
			call.Inputs[n] = c.put(t, next)
			next += align(uint64(len(t.Data)))
			if first := calls[0].Tensors; n >= len(first) || t.Name != first[n].Name ||
				len(t.Data)%Alignment != 0 && i < len(calls)-1 {
				run.Joined = false
			}
		}
	}
	return run, at, nil
}

// put copies a tensor into the input memory.
func (c *Client) put(t *edgewise.Tensor, at uint64) Tensor {
	placed := Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Size: uint64(len(t.Data))}
	if len(t.Data) > 0 {
		placed.Offset = at
		copy(c.in.data[at:], t.Data)
	}
	return placed
}

// room takes a block of the input memory, and waits until there is one. That of no bytes is noBlock.
func (c *Client) room(ctx context.Context, size uint64) (uint64, error) {
	if size == 0 {
		return noBlock, nil
	}
	if size > uint64(c.in.Size()) {
		return 0, fmt.Errorf("%w: %d bytes of tensors do not fit into the %d bytes of the input memory", ErrTooLarge, size,
			c.in.Size())
	}
	for {
		if at, ok := c.in.Alloc(size); ok {
			return at, nil
		}
		select {
		case <-c.in.Freed():
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-c.ended:
			return 0, c.err
		}
	}
}
