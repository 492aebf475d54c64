package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// exchange is a call in the hands of a process.
type exchange struct {
	backend.Call
	call    *edgewise.Call
	process *process
	lending *lending
	unwatch func() bool

	mu      sync.Mutex // guards what follows
	room    *sync.Cond // queue has become shorter, or ended is set
	queue   []*backend.Response
	working bool // a goroutine delivers
	final   bool // the last response has come
	ended   bool // the call was given its last answer, or will be by who has set it
	overdue *time.Timer
}

// maxQueued bounds the responses of a call that wait for a slow client. Those with outputs are fewer by the protocol; at
// this bound the process's other messages wait, too.
const maxQueued = 1024

// open makes an exchange of a call.
func (p *process) open(call *edgewise.Call, l *lending) *backend.Call {
	x := &exchange{call: call, process: p, lending: l}
	x.room = sync.NewCond(&x.mu)
	req := call.Request
	x.Call = backend.Call{
		Request: backend.Request{
			ID: req.ID, Correlation: req.Sequence.ID, CorrelationText: req.Sequence.Name, Priority: req.Priority,
			Timeout: req.Timeout, Parameters: req.Parameters, Wanted: call.Want,
		},
		Tensors: req.Inputs, Answer: x.answer, Owner: x,
	}
	if req.Sequence.Start {
		x.Flags |= backend.SequenceStart
	}
	if req.Sequence.End {
		x.Flags |= backend.SequenceEnd
	}
	if call.Reader == nil {
		x.unwatch = context.AfterFunc(call.Context, x.cancel)
		return &x.Call
	}
	gone := context.AfterFunc(call.Reader, x.cancel)
	told := context.AfterFunc(call.Context, func() { p.client.Cancel(&x.Call) })
	x.unwatch = func() bool {
		told()
		return gone()
	}
	return &x.Call
}

// abandon forgets a call that was not sent.
func (p *process) abandon(c *backend.Call) {
	x := c.Owner.(*exchange)
	x.unwatch()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended, x.final = true, true
	if x.overdue != nil {
		x.overdue.Stop()
	}
}

// cancel ends a call of which nobody wants further answers, once its inputs are read no more. The process is killed when
// it sends no last one in time.
func (x *exchange) cancel() {
	<-x.lending.sent
	x.mu.Lock()
	ended := x.ended
	x.ended = true
	if !x.final {
		grace := x.process.task.manifest.Grace
		x.overdue = time.AfterFunc(grace, func() {
			x.process.Kill(fmt.Sprintf("killed: a request went on for %v after it was cancelled", grace))
		})
	}
	dropped := x.queue
	x.queue = nil
	x.room.Broadcast()
	x.mu.Unlock()
	for _, r := range dropped {
		r.Taken()
	}
	x.process.client.Cancel(&x.Call)
	if !ended {
		_ = x.call.Answer(nil, true, x.call.Context.Err())
	}
}

// answer takes a response. It is called by the goroutine that reads what the process sends.
func (x *exchange) answer(r *backend.Response) {
	x.mu.Lock()
	if r.Final {
		x.final = true
		if x.overdue != nil {
			x.overdue.Stop()
		}
	}
	for !x.ended && len(x.queue) >= maxQueued {
		x.room.Wait()
	}
	if x.ended {
		x.mu.Unlock()
		r.Taken()
		return
	}
	if r.Final && !x.working { // nothing is before it, and it does not wait for the client
		x.ended = true
		x.mu.Unlock()
		x.deliver(r)
		return
	}
	x.queue = append(x.queue, r)
	if !x.working {
		x.working = true
		go x.work()
	}
	x.mu.Unlock()
}

// work delivers the responses that have come.
func (x *exchange) work() {
	for {
		x.mu.Lock()
		if len(x.queue) == 0 {
			x.working = false
			x.mu.Unlock()
			return
		}
		r := x.queue[0]
		x.queue = x.queue[1:]
		x.ended = x.ended || r.Final
		x.room.Broadcast()
		x.mu.Unlock()
		x.deliver(r)
	}
}

// deliver gives a response to the client. It waits while the client reads slowly. An error of it ends the call's context.
func (x *exchange) deliver(r *backend.Response) {
	if r.Final {
		x.unwatch()
	}
	if r.Error != nil {
		r.Taken()
		_ = x.call.Answer(nil, r.Final, x.failure(r.Error))
		return
	}
	if r.Empty || r.Final && len(r.Outputs) == 0 && x.process.task.model.Decoupled() {
		r.Taken()
		_ = x.call.Answer(nil, r.Final, nil)
		return
	}
	_ = x.call.Answer(&edgewise.Result{Outputs: r.Outputs, Parameters: r.Parameters, Free: r.Taken}, r.Final, nil)
}

// failure is an error of the backend's with the words of its author, or that of a process that has ended.
func (x *exchange) failure(err error) error {
	own, ok := errors.AsType[*backend.Error](err)
	if !ok {
		return err
	}
	return edgewise.Errorf("external.Run", own.Kind(), "%s", own.Message)
}

func tooLarge(err error) bool { return errors.Is(err, backend.ErrTooLarge) }

// lending releases the cores of a batch while its model waits for other models.
type lending struct {
	ctx     context.Context // of the batch
	suspend func(context.Context) (resume func())
	sent    chan struct{} // closed when the batch was sent, or could not be

	mu      sync.Mutex // guards what follows, and is held while cores are waited for
	waits   int        // requests to other models
	resume  func()     // nil: the batch has its cores
	settled bool       // the batch is done
}

// begin releases the cores until the function that it returns is called.
func (l *lending) begin() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled || l.suspend == nil {
		return func() {}
	}
	if l.waits++; l.waits == 1 {
		l.resume = l.suspend(l.ctx)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waits--; l.waits == 0 {
			l.take()
		}
	}
}

// take takes the cores back. The caller holds mu.
func (l *lending) take() {
	if resume := l.resume; resume != nil {
		l.resume = nil
		resume()
	}
}

// end takes the cores back for the end of the batch.
func (l *lending) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = true
	l.take()
}
