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

// Events are what a backend does on its own. They are called one after the other by Client.Serve, which reads nothing
// meanwhile.
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
	// Answer receives the responses in order; the last one is final. It is called by Client.Serve, and by Client.End for
	// a call that has no final response then.
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
	in, out *Memory
	events  Events
	ready   chan *Ready
	done    chan uint64
	ended   chan struct{} // closed by End

	mu      sync.Mutex // guards what follows
	numbers uint64
	calls   map[uint64]*Call
	execs   map[uint64]bool // open ones
	reads   map[uint64]bool // blocks in the input memory that the backend reads
	run     uint64          // in progress, 0: none
	started bool            // READY has come
	checks  map[uint64]chan error
	takes   []byte // TAKEN frames that were not sent
	taking  bool   // a timer is set to send them
	err     error  // why the connection ended
}

// Patience is how long a backend may leave what is sent to it unread before its connection is given up.
const Patience = 10 * time.Second

// NewClient makes the server's half of a connection on its end of the socket, which it closes at the end as it does in
// and out. in is owned by this side, out by the backend.
func NewClient(socket *os.File, in, out *Memory, events Events) *Client {
	return &Client{
		socket: newSocket(socket, Patience), in: in, out: out, events: events, ready: make(chan *Ready, 1),
		done: make(chan uint64, 1), ended: make(chan struct{}), calls: map[uint64]*Call{}, execs: map[uint64]bool{},
		reads: map[uint64]bool{}, checks: map[uint64]chan error{},
	}
}

// Serve reads what the backend sends until the connection ends, and returns why: io.EOF when the backend has closed it,
// ErrProtocol when it broke the protocol. It is called once. The caller ends the process and calls End then.
func (c *Client) Serve() error {
	for {
		k, body, err := c.socket.next()
		if err == nil {
			err = c.frame(k, body)
		}
		if err != nil {
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
	blocks := c.reads
	c.reads = map[uint64]bool{}
	c.mu.Unlock()
	close(c.ended)
	_ = c.socket.close()
	for _, call := range open {
		call.Answer(&Response{Final: true, Error: err, Taken: func() {}})
	}
	for at := range blocks {
		c.in.Free(at)
	}
	c.in.Close()
	c.out.Close()
}

// Close ends the connection: Serve returns.
func (c *Client) Close() { _ = c.socket.close() }

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

// Run sends a batch and returns when the backend takes the next one. Errors: those of Send.
func (c *Client) Run(ctx context.Context, calls []*Call) error {
	if err := c.Send(ctx, calls); err != nil {
		return err
	}
	select {
	case <-c.Done():
	case <-c.Ended(): // the calls have got its error
	}
	return nil
}

// Done has a token when the backend takes the next batch.
func (c *Client) Done() <-chan uint64 { return c.done }

// Send sends a batch. The next one is sent when Done has had a token; calls may be open then. On an error no call is
// answered: ErrTooLarge, that of ctx while it waits for memory, that of End.
func (c *Client) Send(ctx context.Context, calls []*Call) error {
	run, at, err := c.place(ctx, calls)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		c.in.Free(at)
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
	_ = c.socket.write(frames) // a connection that fails ends by Serve, too
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
	c.in.Free(at)
}

// noBlock is the place of a message without bytes.
const noBlock = ^uint64(0)

// place copies the inputs of a batch into one block: those of a name one after the other.
func (c *Client) place(ctx context.Context, calls []*Call) (*Run, uint64, error) {
	run := &Run{Joined: true, Calls: make([]RunCall, len(calls))}
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
	return c.socket.write(frames)
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
	known := c.reads[at]
	delete(c.reads, at)
	c.mu.Unlock()
	if !known {
		return broken("READ of %d, where no inputs stand", at)
	}
	c.in.Free(at)
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

// Gone tells whether an error of Serve says that the backend has closed the connection.
func Gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF)
}
