// Package sequence runs models whose requests belong to sequences: a Batcher in front of a scheduler keeps the requests
// of a sequence in order, adds controls and the implicit state, and keeps sequences in slots.
package sequence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/ordering"
)

// Batcher is the Servable of one version with sequence_batching, in front of a Scheduler. It keeps the requests of a
// sequence in order, one at a time, adds the control inputs and the state that the last request of the sequence left,
// and keeps as many sequences running as there are slots; others wait in a backlog. No sequence sees the data of
// another.
//
// A request to a decoupled model runs until its last response has left: then the next one of the sequence runs, or the
// slot is free. Such requests are never rows of one batch.
//
// A request that fails leaves the sequence as it was. A request whose client leaves before the answer ends the
// sequence, because the next one would find a state without it: the requests behind it are canceled.
type Batcher struct {
	version  *edgewise.Version
	runs     *sched.Scheduler // runs the model with its control and state tensors
	checker  *sched.Checker   // of the clients' requests
	controls []control
	states   *states
	table    *table
	direct   *directBatcher // the slots of the strategy direct with batches; nil: each request runs by itself
	measured *sched.Meter
	logger   *slog.Logger
	shared   sync.WaitGroup // responses whose memory the requests of a batch share
	spare    atomic.Int64   // rows that ran without a request
	hold     sched.Hold     // of the table, once the version is warm
}

var (
	_ edgewise.Servable = (*Batcher)(nil)
	_ edgewise.Isolated = (*Batcher)(nil)
)

// Config configures a Batcher beside its Scheduler.
type Config struct {
	// Initial are the tensors that states begin with, without a batch dimension, by the name of the state's input. They
	// are only read.
	Initial []edgewise.Tensor
	Budget  *StateBudget // of the states' bytes; nil: no bound
}

// New starts the instance loops of v on an instance, which the Batcher owns from then on.
func New(v *edgewise.Version, instance edgewise.Instance, c sched.Config, own Config) *Batcher {
	plain := *v
	plain.Model = PlainModel(v.Model)
	strategy, waiting := v.Model.SequenceBatching, max(c.MaxQueue, 1)
	c.MaxQueue = math.MaxInt // requests queued there have slots, which are bounded
	b := &Batcher{
		version: v, runs: sched.New(&plain, instance, c), checker: sched.NewChecker(v.Model), controls: controlsOf(strategy),
		states: newStates(v.Model, own.Initial, own.Budget), measured: sched.NewMeter(), logger: c.Logger, hold: c.Hold,
	}
	b.table = &table{
		idleLimit: time.Duration(strategy.MaxSequenceIdle) * time.Microsecond, maxQueue: waiting,
		live: map[correlationID]*sequence{}, forget: func(s *sequence) { b.states.forget(&s.state) },
	}
	if strategy.Oldest == nil && v.Model.MaxBatchSize > 1 && !v.Model.Decoupled() {
		b.direct = newDirectBatcher(b)
		b.table.slots = b.direct
	} else {
		b.table.slots = &oldestSlots{table: b.table, each: candidates(v.Model)}
	}
	b.table.slots.resize(v.Model.Instances())
	return b
}

// Infer answers one request of a sequence after those before it. When ctx ends while it waits it is withdrawn at once,
// and the requests behind it with it; when it is running, Infer waits for the run to end.
func (b *Batcher) Infer(ctx context.Context, req *edgewise.Request) (resp *edgewise.Response, err error) {
	start := req.Came()
	defer func() { b.measured.Count(start, resp, err) }()
	if b.version.Model.Decoupled() {
		if err := req.CheckEach(b.version.ID); err != nil {
			return nil, err
		}
	}
	checked, err := b.checker.Admit(req, nil)
	if err != nil {
		return nil, err
	}
	if err := b.checkSequence(req, checked.Rows); err != nil {
		return nil, err
	}
	if len(req.Callers) > 0 {
		defer cores.Suspend(ctx)()
	}
	c := &request{
		start: req.Sequence.Start, end: req.Sequence.End, arrived: start, granted: make(chan struct{}, 1),
		call: &call{ctx: ctx, request: req, inputs: checked.Inputs, want: checked.Outputs},
	}
	id := idOf(req.Sequence)
	if err := b.table.enter(id, c); err != nil {
		return nil, b.refusal(err, id)
	}
	defer b.table.inflight.Done()
	ordering.Queued(ctx)
	if c.restarts {
		b.logger.Warn(
			"a sequence is started again before its end", "model", b.version.ID.String(), "sequence", id.String(),
		)
	}
	if err := b.await(c, id); err != nil {
		return nil, err
	}
	if b.direct != nil {
		return c.call.response, c.call.err
	}
	return b.run(c)
}

// checkSequence says why a request cannot be one of a sequence, in Triton's words (kind Invalid).
func (b *Batcher) checkSequence(req *edgewise.Request, rows int) error {
	id := req.Sequence
	switch {
	case rows > 1:
		return b.checker.Invalid(
			"inference request to model '%s' must specify batch-size 1 due to requirements of sequence batcher",
			b.version.ID.Name,
		)
	case !id.Active():
		return b.checker.Invalid(
			"inference request to model '%s' must specify a non-zero or non-empty correlation ID", b.version.ID.Name,
		)
	case len(id.Name) > MaxIDBytes:
		return edgewise.Errorf(
			"sequence.check", edgewise.Invalid,
			"inference request to model '%s': the correlation ID has %d bytes, at most %d are allowed",
			b.version.ID.Name, len(id.Name), MaxIDBytes,
		).WithLimit(MaxIDBytes)
	}
	for i := range b.controls {
		c := &b.controls[i]
		if c.kind != controlID || (c.dataType == edgewise.Bytes) == (id.Name != "") {
			continue
		}
		got := edgewise.Uint64
		if id.Name != "" {
			got = edgewise.Bytes
		}
		return b.checker.Invalid(
			"sequence batching control '%s' data-type is '%v', but model '%s' expects '%v'", c.name, got,
			b.version.ID.Name, c.dataType,
		)
	}
	return nil
}

// refusal turns an error of the table into what a client sees.
func (b *Batcher) refusal(err error, id correlationID) error {
	e := &edgewise.Error{Op: "sequence.Infer", Kind: edgewise.Unavailable, Model: b.version.ID, Err: err}
	switch {
	case errors.Is(err, sched.ErrFull):
		e.Kind = edgewise.Busy
	case errors.Is(err, errUnknown):
		e.Kind = edgewise.Invalid
		e.Err = fmt.Errorf(
			"inference request for sequence %v to model '%s' must specify the START flag on the first request of "+
				"the sequence",
			id, b.version.ID.Name,
		)
	case errors.Is(err, errCanceled):
		e.Kind = edgewise.Canceled
		e.Err = fmt.Errorf("inference request for sequence %v to model '%s': %w", id, b.version.ID.Name, err)
	}
	return e
}

// await returns when c may run or has an answer, or the reason why it never will.
func (b *Batcher) await(c *request, id correlationID) error {
	var expired <-chan time.Time
	if timeout := c.call.request.Timeout; timeout > 0 {
		timer := time.NewTimer(time.Until(c.arrived.Add(timeout)))
		defer timer.Stop()
		expired = timer.C
	}
	for {
		select {
		case <-c.granted:
			if c.err != nil {
				return b.refusal(c.err, id)
			}
			return nil
		case <-expired:
			b.table.overdue(c, time.Now())
			expired = nil
		case <-c.call.ctx.Done():
			if b.table.withdraw(c) {
				return c.call.ctx.Err()
			}
			<-c.granted
			if c.err != nil {
				return b.refusal(c.err, id)
			}
			return nil
		}
	}
}

// run runs one request by itself.
func (b *Batcher) run(c *request) (*edgewise.Response, error) {
	response, err := b.single(c.call.ctx, c)
	b.table.finish(c, c.left(err))
	return response, err
}

// left tells whether a request has no answer because its client has left.
func (c *request) left(err error) bool { return err != nil && c.call.ctx.Err() != nil }

// single runs a request by itself and keeps the state that it leaves.
func (b *Batcher) single(ctx context.Context, c *request) (*edgewise.Response, error) {
	began := time.Now()
	response, err := b.runs.Infer(ctx, b.alone(c))
	if err != nil {
		return nil, err
	}
	return b.own(c, response, began)
}

// alone is a request as the model sees it when it is not merged with others.
func (b *Batcher) alone(c *request) *edgewise.Request {
	inputs := b.inputs(c.call.inputs, b.signal(c), b.states.of(&c.of.state, c.start))
	req := b.request(c.call, inputs, c.call.want)
	req.Sequence, req.Instance = c.call.request.Sequence, c.of.slot.instance
	req.Each, req.Stop = c.call.request.Each, c.call.request.Stop
	return req
}

// inputs are those of one row.
func (b *Batcher) inputs(own []edgewise.Tensor, s signal, states []edgewise.Tensor) []edgewise.Tensor {
	inputs := append(make([]edgewise.Tensor, 0, len(own)+len(b.controls)+len(states)), own...)
	for i := range b.controls {
		inputs = append(inputs, b.controls[i].tensor([]signal{s}, b.states.batches))
	}
	return append(inputs, states...)
}

// own makes the answer to a request of what its run gave, which began at a time, and keeps the state.
func (b *Batcher) own(c *request, response *edgewise.Response, began time.Time) (*edgewise.Response, error) {
	if err := b.settle(c, response.Outputs); err != nil {
		response.Release()
		return nil, err
	}
	if len(b.states.rules) > 0 { // a process gives its outputs in any order
		response.Outputs = slices.DeleteFunc(response.Outputs, func(t edgewise.Tensor) bool {
			return !slices.Contains(c.call.want, t.Name)
		})
	}
	response.Timing.Sequence = began.Sub(c.arrived)
	response.Timing.Queue += response.Timing.Sequence
	return response, nil
}

func (b *Batcher) signal(c *request) signal {
	return signal{start: c.start, end: c.end, ready: true, id: c.of.id}
}

// request makes a request of the model as it runs.
func (b *Batcher) request(call *call, inputs []edgewise.Tensor, want []string) *edgewise.Request {
	return &edgewise.Request{
		ID: call.request.ID, Model: b.version.ID, Inputs: inputs, Outputs: b.states.wanted(want),
		Parameters: call.request.Parameters, Callers: call.request.Callers, Pictures: call.request.Pictures,
	}
}

// settle keeps the state among the outputs of a request, unless its sequence ends with it.
func (b *Batcher) settle(c *request, outputs []edgewise.Tensor) error {
	if len(b.states.rules) == 0 || c.end {
		return nil
	}
	return b.states.keep(&c.of.state, outputs)
}
