package sched

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// MaxOpenCalls bounds the calls of one version that are open. Further requests are refused as Busy.
const MaxOpenCalls = 1024

// errEnded is returned for answers to a call that has ended.
var errEnded = errors.New("the call has ended")

// answerer is the Answerer of a scheduler, and the calls that it has.
type answerer struct {
	instance  edgewise.Answerer
	decoupled bool
	open      atomic.Int32
	calls     sync.WaitGroup // that are open
}

// newAnswerer returns nil for an instance that is given batches by Run.
func newAnswerer(m *edgewise.Model, i edgewise.Instance) *answerer {
	instance, ok := i.(edgewise.Answerer)
	if !ok {
		return nil
	}
	return &answerer{instance: instance, decoupled: m.Decoupled()}
}

// admits refuses a request that the model cannot answer.
func (a *answerer) admits(s *Scheduler, req *edgewise.Request) error {
	switch {
	case a == nil:
		return nil
	case a.decoupled && req.Each == nil:
		return req.CheckEach(s.version.ID)
	case a.open.Load() >= MaxOpenCalls:
		return s.refusal(ErrFull)
	}
	return nil
}

// wait returns when no call is open.
func (a *answerer) wait() {
	if a != nil {
		a.calls.Wait()
	}
}

// ask gives jobs to the Answerer as calls. Each job leaves when its call has ended, which may be later. No job is
// touched after that.
func (l *instanceLoop) ask(ctx context.Context, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	jobs = unfolded(jobs)
	b := &batch{s: l.s, began: jobs[0].started, total: elements(jobs)}
	open, calls := make([]*exchange, len(jobs)), make([]*edgewise.Call, len(jobs))
	for i, j := range jobs {
		open[i] = l.open(j, b)
		calls[i] = &open[i].Call
	}
	err := l.begin(l.lease.Context(ctx), calls) // for the time in which the model waits for others
	l.lease.End()
	for _, x := range open {
		if err != nil {
			_ = x.answer(nil, true, err)
		}
	}
}

// batch is what calls that began together have in common.
type batch struct {
	s       *Scheduler
	began   time.Time
	total   int // elements
	counted atomic.Bool
}

// executed counts the execution when the first of its calls has been answered, which took so long.
func (b *batch) executed(took time.Duration) {
	if !b.counted.Swap(true) {
		b.s.queue.pace.add(took)
		b.s.measured.executed(time.Now(), edgewise.Timing{Infer: took, Batch: b.total})
	}
}

// begin calls the Answerer. A panic, which is our own bug, becomes an Internal error.
func (l *instanceLoop) begin(ctx context.Context, calls []*edgewise.Call) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = l.s.panicked(cause)
		}
	}()
	return l.s.answerer.instance.Answer(ctx, calls)
}

// exchange is a request in the hands of the Answerer.
type exchange struct {
	edgewise.Call
	s      *Scheduler
	each   func(*edgewise.Response) error
	cancel context.CancelFunc
	unstop func() bool // no more looks at Request.Stop
	batch  *batch

	mu     sync.Mutex // lets answers pass one at a time, and guards what follows
	j      *job       // nil: the call has ended
	err    error      // why nobody wants further answers
	held   *edgewise.Result
	place  int           // of the next answer
	since  time.Time     // the client had the answer before it, or the execution began
	waited time.Duration // for the reader of its answers
	timing edgewise.Timing
}

// open makes a call of a job. The context of a guest's call carries the lease.
func (l *instanceLoop) open(j *job, b *batch) *exchange {
	s, ctx := l.s, j.ctx
	if s.guest {
		ctx = l.lease.Context(ctx)
	}
	s.answerer.open.Add(1)
	s.answerer.calls.Add(1)
	req := *j.request
	req.Inputs = j.inputs
	x := &exchange{
		Call: edgewise.Call{Request: &req, Want: j.want}, s: s, each: req.Each, batch: b, j: j, since: j.started,
	}
	x.Context, x.cancel = context.WithCancel(ctx)
	x.unstop = func() bool { return true }
	if req.Stop != nil {
		x.Reader = x.Context
		var stop context.CancelFunc
		x.Context, stop = context.WithCancel(x.Reader)
		x.unstop = context.AfterFunc(req.Stop, stop)
	}
	x.Answer = x.answer
	return x
}

// answer is Call.Answer.
func (x *exchange) answer(r *edgewise.Result, last bool, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.j == nil {
		release(r)
		return errEnded
	}
	if x.err == nil {
		x.err = x.j.ctx.Err()
	}
	now := time.Now()
	made := now.Sub(x.since)
	if r != nil {
		x.timing.Input += r.Input
		x.timing.Infer += r.Infer
		x.timing.Output += r.Output
		x.timing.Guest = x.timing.Guest.Add(r.Guest)
	}
	switch {
	case x.err != nil:
		release(r)
		x.count(made, 0, abortedResponse)
	case x.s.answerer.decoupled:
		x.decoupled(r, last, err, now)
	default:
		x.single(r, last, err)
	}
	if x.err != nil {
		x.cancel()
	}
	x.since = time.Now()
	if last {
		defer x.end()
	}
	return x.err
}

// single takes an answer of a model that has one.
func (x *exchange) single(r *edgewise.Result, last bool, err error) {
	switch {
	case err != nil:
		x.err = err
	case r != nil && x.held != nil:
		release(r)
		x.err = x.wrong("sent more than one response, and is not decoupled")
	case r != nil:
		x.held = r
	case last && x.held == nil:
		x.err = x.wrong("sent no response")
	}
	if last && x.err == nil {
		var resp *edgewise.Response
		if resp, x.err = x.response(x.held); x.err == nil {
			x.j.outputs, x.j.parameters, x.j.free = resp.Outputs, resp.Parameters, resp.Free
		}
		x.held = nil
	}
}

// decoupled takes an answer of a decoupled model, which was there at a time.
func (x *exchange) decoupled(r *edgewise.Result, last bool, err error, now time.Time) {
	if x.place == 0 {
		x.timing.First = now.Sub(x.j.arrived)
	}
	made := now.Sub(x.since)
	resp := &edgewise.Response{ID: x.Request.ID, Model: x.s.version.ID, Fault: err}
	switch {
	case err != nil && last:
		x.err = err
	case r != nil:
		resp, x.err = x.response(r)
	}
	switch {
	case x.err != nil:
		x.count(made, 0, failedResponse)
	case last:
		x.j.outputs, x.j.parameters, x.j.free, x.j.empty = resp.Outputs, resp.Parameters, resp.Free, r == nil
		how := successfulResponse
		if r == nil {
			how = emptyResponse
		}
		x.count(made, 0, how)
	case r == nil && err == nil:
		x.err = x.wrong("sent a response without outputs that is not its last")
	default:
		x.deliver(resp)
		waited := time.Since(now)
		x.waited += waited
		how := successfulResponse
		switch {
		case err != nil:
			how = failedResponse
		case x.err != nil:
			how = abortedResponse
		}
		x.count(made, waited, how)
	}
}

// deliver hands a response to its reader. A guest leaves its cores to others while the reader waits. A reader that
// panics, which is our own bug, fails the request.
func (x *exchange) deliver(resp *edgewise.Response) {
	defer func() {
		if cause := recover(); cause != nil {
			x.err = x.s.panicked(cause)
		}
	}()
	if x.s.guest {
		defer cores.Suspend(x.Context)()
	}
	x.err = x.each(resp)
}

// response makes a response of a result, which it owns. Outputs that are not wanted are left out.
func (x *exchange) response(r *edgewise.Result) (*edgewise.Response, error) {
	if err := x.s.checker.finish(r); err != nil {
		release(r)
		return nil, err
	}
	unwanted := func(t edgewise.Tensor) bool { return !slices.Contains(x.Want, t.Name) }
	return &edgewise.Response{
		ID: x.Request.ID, Model: x.s.version.ID, Parameters: r.Parameters, Outputs: slices.DeleteFunc(r.Outputs, unwanted),
		Timing: edgewise.Timing{Batch: x.batch.total}, Free: ShareResult(r, 1, &x.s.results),
	}, nil
}

// end lets the job leave. The lock is held.
func (x *exchange) end() {
	release(x.held)
	j := x.j
	x.j, x.held = nil, nil
	x.unstop()
	x.cancel()
	if j.err = x.err; j.err != nil {
		x.err = errEnded
	}
	took, t := max(0, time.Since(j.started)-x.waited), x.timing
	j.tell(&t)
	if t.Batch = x.batch.total; t.Infer == 0 {
		t.Infer = max(0, took-t.Input-t.Output)
	}
	if j.timing = t; j.err == nil {
		x.batch.executed(took)
	}
	x.s.answerer.open.Add(-1)
	x.s.answerer.calls.Done()
	for _, leaving := range x.s.queue.finish([]*job{j}, nil) {
		leaving.done <- struct{}{}
	}
}

// count counts an answer of a decoupled model.
func (x *exchange) count(made, sent time.Duration, how func(*edgewise.ResponseStatistics) *edgewise.Duration) {
	if !x.s.answerer.decoupled {
		return
	}
	x.s.measured.responded(x.place, made, sent, how)
	x.place++
}

// How a response of a decoupled model can end.
func successfulResponse(r *edgewise.ResponseStatistics) *edgewise.Duration { return &r.Success }
func failedResponse(r *edgewise.ResponseStatistics) *edgewise.Duration     { return &r.Fail }
func emptyResponse(r *edgewise.ResponseStatistics) *edgewise.Duration      { return &r.Empty }
func abortedResponse(r *edgewise.ResponseStatistics) *edgewise.Duration    { return &r.Aborted }

func (x *exchange) wrong(what string) error {
	return edgewise.Errorf("sched.call", edgewise.Internal, "model %v: its backend %s", x.s.version.ID, what)
}

func release(r *edgewise.Result) {
	if r != nil {
		r.Free()
	}
}
