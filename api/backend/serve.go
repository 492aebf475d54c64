package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Model is what a backend in Go serves.
type Model interface {
	// Execute answers the requests of a batch, each with Call.Send or Call.Fail. It may return before the last response of
	// a request, which another goroutine sends then. The last final response of a batch leaves with its return. An error,
	// which may be an *Error, answers all requests that are open.
	Execute(requests []*Incoming) error
	// Close ends the model. No Execute is in progress.
	Close()
}

// Checker is a Model that is asked whether it is ready whenever a client wants to know. Error: why it is not.
type Checker interface{ Check() error }

// Load loads the model that start names. An error, which may be an *Error, is the answer to START.
type Load func(s *Server, start *Start) (Model, *Ready, error)

// Server is a backend's half of a connection.
type Server struct {
	socket  *socket
	in, out *Memory
	turn    turn
	relief  *time.Timer // has another goroutine read
	level   Level

	mu       sync.Mutex // guards what follows
	changed  *sync.Cond // a block was taken, a call was cancelled, or the connection has ended
	ended    bool
	model    Model
	calls    map[uint64]*Incoming
	blocks   map[uint64]*Incoming // in the output memory, nil: of no call's
	execs    map[uint64]*Stream
	controls map[uint64]chan *ControlAnswer
	numbers  uint64
	batch    *batch // that Execute works on, with what leaves with its return
}

// batch is a RUN whose inputs were not given back.
type batch struct {
	at      uint64
	open    int    // calls without a final response
	running bool   // Execute has not returned
	held    []byte // frames that leave when it returns
}

// Serve is the life of a backend: it loads a model, runs batches until the server says STOP or is gone, and returns an
// error when the connection could not be used. The caller ends the process then.
func Serve(load Load) error {
	s, start, err := open()
	if err != nil {
		return err
	}
	s.relief = time.AfterFunc(0, s.relieve)
	model, ready, err := load(s, start)
	if err != nil {
		ready = &Ready{Error: ErrorOf(err)}
	} else if ready == nil {
		ready = &Ready{}
	}
	if model != nil {
		defer model.Close()
		_, ready.Checks = model.(Checker)
	}
	s.mu.Lock()
	s.model = model
	s.mu.Unlock()
	frame, encoding := appendJSON(nil, KindReady, ready)
	if encoding != nil {
		return encoding
	}
	if err := s.socket.write(frame); err != nil || model == nil || start.Describe {
		return err
	}
	for {
		run := s.next()
		if run == nil {
			return nil
		}
		s.relief.Reset(reliefTime)
		if err := s.execute(model, run); err != nil {
			return err
		}
	}
}

// open receives START and maps the memory.
func open() (*Server, *Start, error) {
	// a thread that waits in a read is woken sooner than one that waits for many files
	if err := unix.SetNonblock(SocketFD, false); err != nil {
		return nil, nil, err
	}
	s := &Server{
		socket: newSocket(os.NewFile(SocketFD, "socket"), 0),
		calls:  map[uint64]*Incoming{}, blocks: map[uint64]*Incoming{}, execs: map[uint64]*Stream{},
		controls: map[uint64]chan *ControlAnswer{},
	}
	s.changed = sync.NewCond(&s.mu)
	s.turn.changed = sync.NewCond(&s.turn.mu)
	k, body, err := s.socket.next()
	if err != nil {
		return nil, nil, err
	}
	start := new(Start)
	if k != KindStart {
		return nil, nil, broken("the first frame is of kind %d", k)
	}
	if err := decodeJSON(k, body, start); err != nil {
		return nil, nil, err
	}
	if start.Protocol != Version {
		return nil, nil, fmt.Errorf("the server speaks version %d of the protocol, and this backend version %d",
			start.Protocol, Version)
	}
	if s.in, err = openMemory(os.NewFile(InputFD, "input"), start.InputBytes, false); err != nil {
		return nil, nil, err
	}
	if s.out, err = openMemory(os.NewFile(OutputFD, "output"), start.OutputBytes, true); err != nil {
		return nil, nil, err
	}
	s.level = ParseLevel(start.Log)
	return s, start, nil
}

// over notes the end of the connection, which ends everything.
func (s *Server) over() {
	s.mu.Lock()
	s.ended = true
	for _, c := range s.calls {
		c.cancel()
	}
	for _, x := range s.execs {
		x.end()
	}
	for _, answer := range s.controls {
		close(answer)
	}
	s.changed.Broadcast()
	s.mu.Unlock()
}

// frame obeys a frame, and returns the batch of a RUN.
func (s *Server) frame(k Kind, body []byte) (*Run, error) {
	switch k {
	case KindRun:
		run, err := decodeRun(body)
		if err != nil {
			return nil, err
		}
		s.accept(run)
		return run, nil
	case KindCancel, KindTaken:
		number, err := decodeNumber(k, body)
		if err != nil {
			return nil, err
		}
		if k == KindCancel {
			return nil, s.cancelled(number)
		}
		return nil, s.wasTaken(number)
	case KindReply:
		r, err := decodeReply(body)
		if err != nil {
			return nil, err
		}
		return nil, s.replied(r)
	case KindAnswer:
		return nil, s.answered(body)
	case KindStop:
		return nil, nil
	case KindCheck:
		return nil, s.check(body)
	case KindPing:
		number, err := decodeNumber(k, body)
		if err != nil {
			return nil, err
		}
		return nil, s.socket.write(appendNumbers(nil, KindPong, number, 0))
	}
	return nil, broken("a frame of the unknown kind %d", k)
}

// answered hands an ANSWER to the Control that waits for it.
func (s *Server) answered(body []byte) error {
	var id uint64
	a := new(ControlAnswer)
	if err := decodeJSON(KindAnswer, body, a, &id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting, ok := s.controls[id]; ok {
		delete(s.controls, id)
		waiting <- a
	}
	return nil
}

// check answers whether the model is ready, in a goroutine of its own: the model may take its time.
func (s *Server) check(body []byte) error {
	id, err := decodeNumber(KindCheck, body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	model, _ := s.model.(Checker)
	s.mu.Unlock()
	go func() {
		reason := ""
		var err error
		if model != nil {
			if err = model.Check(); err != nil {
				reason = err.Error()
			}
		}
		if frame, encoding := appendChecked(nil, id, err == nil, reason); encoding == nil {
			_ = s.socket.write(frame)
		}
	}()
	return nil
}

// accept notes the calls of a batch, so that they can be cancelled.
func (s *Server) accept(run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range run.Calls {
		ctx, cancel := context.WithCancel(context.Background())
		s.calls[run.Calls[i].Call] = &Incoming{
			Request: run.Calls[i].Request, server: s, number: run.Calls[i].Call, ctx: ctx, cancel: cancel,
		}
	}
}

func (s *Server) cancelled(call uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.calls[call]; ok { // its final response may be on its way
		c.cancel()
		s.changed.Broadcast()
	}
	return nil
}

func (s *Server) wasTaken(at uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	call, known := s.blocks[at]
	if !known {
		return broken("TAKEN of %d, where no outputs stand", at)
	}
	delete(s.blocks, at)
	if call != nil {
		call.untaken--
	}
	s.out.Free(at)
	s.changed.Broadcast()
	return nil
}

// execute runs a batch and says that it is done.
func (s *Server) execute(model Model, run *Run) error {
	b := &batch{at: noBlock, open: len(run.Calls), running: true}
	calls := make([]*Incoming, len(run.Calls))
	var all []Tensor
	s.mu.Lock()
	for i := range run.Calls {
		calls[i] = s.calls[run.Calls[i].Call]
		calls[i].batch = b
		all = append(all, run.Calls[i].Inputs...)
	}
	s.batch = b
	s.mu.Unlock()
	if at, ok := block(all); ok {
		b.at = at
	}
	for _, c := range calls {
		c.Inputs = make([]edgewise.Tensor, len(c.Request.Inputs))
		for i := range c.Request.Inputs {
			t := &c.Request.Inputs[i]
			if err := s.in.check(t); err != nil {
				return broken("a request: %v", err)
			}
			c.Inputs[i] = edgewise.Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Data: s.in.bytes(t)}
		}
	}
	if err := model.Execute(calls); err != nil {
		for _, c := range calls {
			_ = c.Fail(err) // one that was answered stays so
		}
	}
	s.mu.Lock()
	frames := b.held
	b.running, b.held = false, nil
	s.mu.Unlock()
	return s.socket.write(appendNumbers(frames, KindDone, run.Run))
}

// send sends the frame of a response. The last final one of a batch goes with DONE in one write.
func (s *Server) send(c *Incoming, frame []byte, final bool) error {
	if !final {
		return s.socket.write(frame)
	}
	s.mu.Lock()
	b := c.batch
	delete(s.calls, c.number)
	b.open--
	if b.open > 0 {
		s.mu.Unlock()
		return s.socket.write(frame)
	}
	if b.at != noBlock {
		frame = appendNumbers(frame, KindRead, b.at)
	}
	if b.running {
		b.held = append(b.held, frame...)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return s.socket.write(frame)
}

// errGone says that the server is gone.
var errGone = errors.New("the server has closed the connection")

// alloc takes a block of the output memory for c, nil for a request to another model. It waits until there is room and
// c has fewer than MaxUntaken responses that were not taken, or until ctx ends.
func (s *Server) alloc(ctx context.Context, c *Incoming, size uint64) (uint64, error) {
	if size == 0 {
		return noBlock, nil
	}
	if size > uint64(s.out.Size()) {
		return 0, fmt.Errorf("outputs of %d bytes do not fit into the %d bytes of the output memory", size, s.out.Size())
	}
	wake := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer wake()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.ended {
			return 0, errGone
		}
		if c == nil || c.untaken < MaxUntaken {
			if at, ok := s.out.Alloc(size); ok {
				if s.blocks[at] = c; c != nil {
					c.untaken++
				}
				return at, nil
			}
		}
		if ctx.Err() != nil {
			return 0, &Error{Cancelled, "the request was cancelled"}
		}
		s.awaitFrames()
		s.changed.Wait()
	}
}

// lay makes the tensors of a message, for which it takes a block. Data that there is is copied; otherwise the tensor is
// made of the size of its type and shape, for the caller to fill in.
func (s *Server) lay(ctx context.Context, c *Incoming, list []edgewise.Tensor) ([]Tensor, uint64, error) {
	placed, total := make([]Tensor, len(list)), uint64(0)
	for i := range list {
		t := &list[i]
		size := int64(len(t.Data))
		if t.Data == nil {
			n, ok := t.Shape.Elements()
			if size = n * t.Type.Size(); !ok || t.Type == edgewise.Bytes || n > s.out.Size() {
				return nil, 0, fmt.Errorf("tensor %q of type %v and shape %v has no size", t.Name, t.Type, t.Shape)
			}
		}
		placed[i] = Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Size: uint64(size)}
		total += align(uint64(size))
	}
	at, err := s.alloc(ctx, c, total)
	if err != nil {
		return nil, 0, err
	}
	next := at
	for i := range placed {
		if placed[i].Size == 0 {
			list[i].Data = []byte{}
			continue
		}
		placed[i].Offset = next
		next += align(placed[i].Size)
		own := s.out.bytes(&placed[i])
		copy(own, list[i].Data)
		list[i].Data = own
	}
	return placed, at, nil
}

// Log writes a line into the server's log.
func (s *Server) Log(l Level, line string) {
	if l < s.level {
		return
	}
	if frame, err := appendLog(nil, l, line[:min(len(line), maxMessage)]); err == nil {
		_ = s.socket.write(frame)
	}
}

// Count changes one of the backend's own metrics.
func (s *Server) Count(m *Metric) error {
	frame, err := appendJSON(nil, KindMetric, m)
	if err != nil {
		return err
	}
	return s.socket.write(frame)
}

// Control has the server load or unload a model, or say whether one is ready.
func (s *Server) Control(control *Control) (*ControlAnswer, error) {
	waiting := make(chan *ControlAnswer, 1)
	s.mu.Lock()
	s.numbers++
	id, ended := s.numbers, s.ended
	s.controls[id] = waiting
	s.mu.Unlock()
	frame, err := appendJSON(nil, KindControl, control, id)
	if err == nil && ended {
		err = errGone
	}
	if err == nil {
		err = s.socket.write(frame)
	}
	if err != nil {
		return nil, err
	}
	s.awaitFrames()
	answer, ok := <-waiting
	switch {
	case !ok:
		return nil, errGone
	case answer.Error != nil:
		return nil, answer.Error
	}
	return answer, nil
}
