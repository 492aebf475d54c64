package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Events are what a backend does on its own. They are called one after the other by Client.Serve or Client.Await, which
// read nothing meanwhile.
type Events interface {
	// Exec is a request to another model. The inputs are readable until taken is called, once. It is answered by Reply.
	Exec(x *Exec, inputs []edgewise.Tensor, taken func())
	// Drop says that the backend waits for an Exec no more. It is still answered with a final Reply.
	Drop(exec uint64)
	Log(l Level, line string)
	Metric(m *Metric)
	Control(id uint64, c *Control) // answered by Answer
	Pong(bytes uint64)             // of memory that the backend counts itself; 0: none
}

// Call is one request of a batch.
type Call struct {
	Request                   // its Inputs are filled in by Run
	Tensors []edgewise.Tensor // the inputs; read until Run has sent them
	// Answer receives the responses in order; the last one is final. It is called by Client.Serve or Client.Await, and by
	// Client.End for a call that has no final response then.
	Answer func(*Response)
	Owner  any // of the caller's, who finds it by Client.Call

	client    *Client
	cancelled bool // guarded by Client.mu
	number    uint64
	untaken   int  // responses whose block was not given back; guarded by Client.mu
	open      bool // guarded by Client.mu
}

// Response is one response to a Call. Its outputs are readable until Taken is called, once; also after the end of the
// process.
type Response struct {
	Final, Empty bool
	Error        error // an *Error of the backend's, or why the process ended
	Parameters   map[string]any
	Outputs      []edgewise.Tensor
	Taken        func() // never nil
}

// Client is the server's half of a connection with a backend.
type Client struct {
	socket  *socket
	turn    *clientTurn
	in, out *Memory
	events  Events
	ready   chan *Ready
	done    chan uint64
	ended   chan struct{} // closed by End

	mu       sync.Mutex // guards what follows
	numbers  uint64
	calls    map[uint64]*Call
	execs    map[uint64]bool   // open ones
	reads    map[uint64]bool   // blocks in the input memory that the backend reads
	borrowed map[uint64]uint64 // those that Borrow has returned, with their bytes
	run      uint64            // in progress, 0: none
	started  bool              // READY has come
	checks   map[uint64]chan error
	takes    []byte // TAKEN frames that were not sent
	taking   bool   // a timer is set to send them
	err      error  // why the connection ended
}

// Serve reads what the backend sends while no Await does, until the connection ends, and returns why: io.EOF when the
// backend has closed it, ErrProtocol when it broke the protocol, os.ErrClosed after Close. It is called once. The caller
// ends the process and calls End then.
func (c *Client) Serve() error {
	for {
		if err := c.turn.await(); err != nil {
			return err
		}
		c.turn.pass(c.receive())
	}
}

// Await waits until the backend takes the next batch; false: ctx or the connection has ended before. It is called once
// for each Send that has returned nil, and again after false. For as long as something comes it reads what the backend
// sends, so that no other goroutine is woken between the answer and the one who waits for it (decision 0099).
func (c *Client) Await(ctx context.Context) bool {
	if c.turn.take() {
		c.turn.pass(c.lead(ctx))
	}
	select {
	case <-c.done:
		return true
	default:
	}
	select {
	case <-c.done:
		return true
	case <-c.ended: // the calls have got its error
	case <-ctx.Done():
	}
	return false
}

// lead reads until the backend takes the next batch, ctx ends, or nothing has come for leadTime.
func (c *Client) lead(ctx context.Context) error {
	for len(c.done) == 0 && ctx.Err() == nil {
		if err := c.receive(); err != nil {
			return err
		}
	}
	return nil
}

// receive reads once and obeys the frames that are whole then: whoever reads next waits for the socket. Errors: those of
// fill and of frame.
func (c *Client) receive() error {
	if err := c.socket.fill(); err != nil {
		return err
	}
	for {
		k, body, ok, err := c.socket.frame()
		if !ok || err != nil {
			return err
		}
		if err := c.frame(k, body); err != nil {
			return err
		}
	}
}

// End gives everything up: calls without a final response get one with err, and waiting methods return it. It is called
// once, after Serve has returned.
func (c *Client) End(err error) {
	c.mu.Lock()
	c.err = err
	open := c.calls
	c.calls = map[uint64]*Call{}
	for _, call := range open {
		call.open = false
	}
	for at := range c.reads {
		delete(c.reads, at)
		c.vacate(at)
	}
	c.mu.Unlock()
	close(c.ended)
	for _, call := range open {
		call.Answer(&Response{Final: true, Error: err, Taken: func() {}})
	}
	c.release()
}

// Close ends the connection: Serve returns.
func (c *Client) Close() { c.turn.end(os.ErrClosed) }

// Number is the number of a call that was sent, by which an Exec names it.
func (c *Call) Number() uint64 { return c.number }

// Call returns a call that is open by its number.
func (c *Client) Call(number uint64) (*Call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.calls[number]
	return call, ok
}

// Ended is closed by End.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Start sends START and waits for READY. Errors: the backend's *Error, that of End, that of ctx.
func (c *Client) Start(ctx context.Context, s *Start) (*Ready, error) {
	return c.StartVersion(ctx, s, Version)
}

// StartVersion is Start with another version of the protocol, to see that a backend refuses it.
func (c *Client) StartVersion(ctx context.Context, s *Start, version int) (*Ready, error) {
	s.Protocol, s.InputBytes, s.OutputBytes = version, c.in.Size(), c.out.Size()
	frame, err := appendJSON(nil, KindStart, s)
	if err != nil {
		return nil, err
	}
	if err := c.send(frame); err != nil {
		return nil, err
	}
	select {
	case r := <-c.ready:
		if r.Error != nil {
			return nil, r.Error
		}
		return r, nil
	case <-c.ended:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Cancel tells the backend that nobody waits for a call. It is still answered with a final response.
func (c *Client) Cancel(call *Call) {
	c.mu.Lock()
	open := call.open
	call.cancelled = true
	c.mu.Unlock()
	if open {
		_ = c.send(appendNumbers(nil, KindCancel, call.number))
	}
}

// Ping asks the backend for a sign of life, which Events.Pong tells of.
func (c *Client) Ping() error { return c.send(appendNumbers(nil, KindPing, 1)) }

// checkTimeout is how long a model may take to say whether it is ready.
const checkTimeout = 5 * time.Second

// Check asks a model of which Ready.Checks is set whether it is ready; nil: it is. Errors: the reason that it gives,
// that of End, Deadline.
func (c *Client) Check(ctx context.Context) error {
	answer := make(chan error, 1)
	c.mu.Lock()
	c.numbers++
	id := c.numbers
	c.checks[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.checks, id)
	}()
	if err := c.send(appendNumbers(nil, KindCheck, id)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	select {
	case err := <-answer:
		return err
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) checked(body []byte) error {
	id, ready, reason, err := decodeChecked(body)
	if err != nil {
		return err
	}
	var answer error
	if !ready {
		answer = errors.New(cmp.Or(reason, "the model says that it is not ready"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting, ok := c.checks[id]; ok {
		delete(c.checks, id)
		waiting <- answer
	}
	return nil
}

// Stop tells the backend to finalize its model and to end.
func (c *Client) Stop() error { return c.send(appendNumbers(nil, KindStop)) }

// Answer answers a Control.
func (c *Client) Answer(id uint64, a *ControlAnswer) error {
	frame, err := appendJSON(nil, KindAnswer, a, id)
	if err != nil {
		return err
	}
	return c.send(frame)
}

// Reply answers an Exec with one response, whose outputs are copied. Errors: ErrTooLarge, and then the Exec is open as
// before; that of ctx while it waits for memory, that of End.
func (c *Client) Reply(ctx context.Context, r *Reply, outputs []edgewise.Tensor) error {
	size := uint64(0)
	for i := range outputs {
		size += align(uint64(len(outputs[i].Data)))
	}
	at, err := c.room(ctx, size)
	if err != nil {
		return err
	}
	next := at
	r.Outputs = make([]Tensor, len(outputs))
	for i := range outputs {
		r.Outputs[i] = c.put(&outputs[i], next)
		next += align(r.Outputs[i].Size)
	}
	frame, err := appendReply(nil, r)
	if err != nil {
		c.in.Free(at)
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		c.in.Free(at)
		return c.err
	}
	if at != noBlock {
		c.reads[at] = true
	}
	if r.Final {
		delete(c.execs, r.Exec)
	}
	c.mu.Unlock()
	return c.send(frame)
}

// send sends frames after the TAKEN frames that wait.
func (c *Client) send(frames []byte) error {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	frames, c.takes = append(c.takes, frames...), nil
	c.mu.Unlock()
	if len(frames) == 0 {
		return nil
	}
	return c.write(frames)
}

// write sends frames, or ends the connection when the backend does not read.
func (c *Client) write(frames []byte) error {
	err := c.socket.write(frames)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.Close()
	}
	return err
}

// TAKEN frames go with the next frame when no call waits for them, or after takeDelay, or when there are many.
const (
	takeDelay  = 5 * time.Millisecond
	manyTaken  = 16
	takenBytes = 4 + 1 + 8
)

// taken gives a block of the output memory back to the backend.
func (c *Client) taken(call *Call, at uint64) {
	if at == noBlock {
		return
	}
	c.out.Free(at)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	waits := false
	if call != nil {
		call.untaken--
		waits = call.open
	}
	c.takes = appendNumbers(c.takes, KindTaken, at)
	if now := waits || len(c.takes) >= manyTaken*takenBytes; !now {
		if !c.taking {
			c.taking = true
			time.AfterFunc(takeDelay, c.flush)
		}
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	_ = c.send(nil)
}

func (c *Client) flush() {
	c.mu.Lock()
	c.taking = false
	c.mu.Unlock()
	_ = c.send(nil)
}

// Gone tells whether an error of Serve says that the backend has closed the connection.
func Gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF)
}
