package sched

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Sequences is the Servable of one version with sequence_batching: it stands in front of a Scheduler. It keeps the
// requests of a sequence in order, one at a time, adds the control inputs and the state that the last request of the
// sequence left behind, and keeps as many sequences running as there are slots; others wait in a backlog. What belongs to
// one sequence is never seen by another.
//
// A request that fails leaves the sequence as it was. One whose client has left before it was answered ends the sequence,
// because what comes after it would find a state without it: the requests behind it are canceled.
type Sequences struct {
	version  *edgewise.Version
	runs     *Scheduler // runs the model with its control and state tensors
	checker  *checker   // of what clients send
	controls []control
	states   *states
	table    *sequenceTable
	rounds   *rounds // the slots, where batches are made of them; nil: each request runs as it is
	jobs     *jobs
	measured *meter
	logger   *slog.Logger
	lent     sync.WaitGroup // responses whose memory is shared by the requests of a round
	spare    atomic.Int64   // rows that ran without a request
	hold     Hold           // of the table, once the version is warm
}

var (
	_ edgewise.Servable  = (*Sequences)(nil)
	_ edgewise.Isolated  = (*Sequences)(nil)
	_ edgewise.Sequencer = (*Sequences)(nil)
)

// SequenceConfig configures Sequences beside its Scheduler.
type SequenceConfig struct {
	Initial []edgewise.Tensor // what states begin with, without a batch dimension, by the name of the state's input; nobody writes to them
	Budget  *StateBudget      // of the states' bytes; nil: no bound
}

// sequenceCall is one request on its way, as its owner and a round see it.
type sequenceCall struct {
	ctx      context.Context
	request  *edgewise.Request
	inputs   []edgewise.Tensor // as the client sent them, in the model's order
	want     []string
	response *edgewise.Response // of a round
	err      error
}

// NewSequences starts the lanes of v on an instance, which the Sequences own from then on.
func NewSequences(v *edgewise.Version, instance edgewise.Instance, c Config, sc SequenceConfig) *Sequences {
	plain := *v
	plain.Model = plainModel(v.Model)
	b, waiting := v.Model.SequenceBatching, max(c.MaxQueue, 1)
	c.MaxQueue = math.MaxInt // what is queued there has a slot, so it is bounded already
	s := &Sequences{
		version: v, runs: New(&plain, instance, c), checker: newChecker(v.Model), controls: controlsOf(b),
		states: newStates(v.Model, sc.Initial, sc.Budget), jobs: newJobs(), measured: newMeter(), logger: c.Logger, hold: c.Hold,
	}
	s.table = &sequenceTable{
		idleLimit: time.Duration(b.MaxSequenceIdle) * time.Microsecond, maxQueue: waiting,
		live: map[sequenceKey]*sequence{}, forget: func(q *sequence) { s.states.forget(&q.state) },
	}
	if b.Oldest == nil && v.Model.MaxBatchSize > 1 {
		s.rounds = newRounds(s)
		s.table.slots = s.rounds
	} else {
		s.table.slots = &seats{table: s.table, each: candidates(v.Model)}
	}
	s.table.slots.resize(instancesOf(v.Model))
	return s
}

// Infer answers one request of a sequence when it is its turn. When ctx ends while it waits it is withdrawn at once, and
// the requests behind it with it; when it is running, Infer waits for the run to end.
func (s *Sequences) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return s.measured.around(ctx, req, s.infer)
}

func (s *Sequences) infer(ctx context.Context, req *edgewise.Request, start time.Time) (*edgewise.Response, error) {
	j := s.jobs.get()
	defer s.jobs.put(j)
	if err := s.checker.check(req, j); err != nil {
		return nil, err
	}
	if err := s.checkSequence(req, j.batch); err != nil {
		return nil, err
	}
	if edgewise.CallOf(ctx).Depth > 0 {
		defer lend(ctx)()
	}
	c := &turn{
		start: req.Sequence.Start, end: req.Sequence.End, arrived: start, granted: make(chan struct{}, 1),
		call: &sequenceCall{ctx: ctx, request: req, want: j.want},
	}
	for i := range j.inputs { // in the model's order, in the shapes that the configuration declares
		in := *inputOf(req, j.inputs[i].Name)
		in.Shape = s.checker.inputs[in.Name].declared(in.Shape)
		c.call.inputs = append(c.call.inputs, in)
	}
	key := keyOf(req.Sequence)
	if err := s.table.enter(key, c); err != nil {
		return nil, s.refusal(err, key)
	}
	defer s.table.inflight.Done()
	edgewise.Queued(ctx)
	if c.restarts {
		s.logger.Warn("a sequence is started again before its end", "model", s.version.ID.String(), "sequence", key.String())
	}
	if err := s.await(c, key); err != nil {
		return nil, err
	}
	if s.rounds != nil {
		return c.call.response, c.call.err
	}
	return s.run(c)
}

func inputOf(req *edgewise.Request, name string) *edgewise.Tensor {
	for i := range req.Inputs {
		if req.Inputs[i].Name == name {
			return &req.Inputs[i]
		}
	}
	return nil
}

// checkSequence says why a request cannot be one of a sequence, in Triton's words (kind Invalid).
func (s *Sequences) checkSequence(req *edgewise.Request, batch int) error {
	id := req.Sequence
	switch {
	case batch > 1:
		return s.checker.invalid("inference request to model '%s' must specify batch-size 1 due to requirements of sequence batcher", s.version.ID.Name)
	case !id.Active():
		return s.checker.invalid("inference request to model '%s' must specify a non-zero or non-empty correlation ID", s.version.ID.Name)
	case len(id.Name) > MaxSequenceName:
		err := edgewise.Errorf("sched.check", edgewise.Invalid, "inference request to model '%s': the correlation ID has %d bytes, at most %d are allowed", s.version.ID.Name, len(id.Name), MaxSequenceName)
		err.Limit = MaxSequenceName
		return err
	}
	for i := range s.controls {
		c := &s.controls[i]
		if c.kind != controlID || (c.dataType == edgewise.Bytes) == (id.Name != "") {
			continue
		}
		got := edgewise.Uint64
		if id.Name != "" {
			got = edgewise.Bytes
		}
		return s.checker.invalid("sequence batching control '%s' data-type is '%v', but model '%s' expects '%v'", c.name, got, s.version.ID.Name, c.dataType)
	}
	return nil
}

// refusal turns an error of the table into what a client sees.
func (s *Sequences) refusal(err error, key sequenceKey) error {
	e := &edgewise.Error{Op: "sched.Infer", Kind: edgewise.Unavailable, Model: s.version.ID, Err: err}
	switch {
	case errors.Is(err, errFull):
		e.Kind = edgewise.Busy
	case errors.Is(err, errSequenceUnknown):
		e.Kind = edgewise.Invalid
		e.Err = fmt.Errorf("inference request for sequence %v to model '%s' must specify the START flag on the first request of the sequence", key, s.version.ID.Name)
	case errors.Is(err, errSequenceCanceled):
		e.Kind = edgewise.Canceled
		e.Err = fmt.Errorf("inference request for sequence %v to model '%s': %w", key, s.version.ID.Name, err)
	}
	return e
}

// await returns when it is c's turn or there is an answer, or says why there will be none.
func (s *Sequences) await(c *turn, key sequenceKey) error {
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
				return s.refusal(c.err, key)
			}
			return nil
		case <-expired:
			s.table.overdue(c, time.Now())
			expired = nil
		case <-c.call.ctx.Done():
			if s.table.withdraw(c) {
				return c.call.ctx.Err()
			}
			<-c.granted
			if c.err != nil {
				return s.refusal(c.err, key)
			}
			return nil
		}
	}
}

// run runs one request whose turn it is, by itself.
func (s *Sequences) run(c *turn) (*edgewise.Response, error) {
	response, err := s.alone(c.call.ctx, c)
	s.table.finish(c, c.left(err))
	return response, err
}

// left tells whether a request has no answer because its client did not wait for it.
func (c *turn) left(err error) bool { return err != nil && c.call.ctx.Err() != nil }

// alone runs a request and keeps the state that it leaves behind.
func (s *Sequences) alone(ctx context.Context, c *turn) (*edgewise.Response, error) {
	rows := []signal{s.signal(c)}
	inputs := append(make([]edgewise.Tensor, 0, len(c.call.inputs)+len(s.controls)+len(s.states.rules)), c.call.inputs...)
	for i := range s.controls {
		inputs = append(inputs, s.controls[i].tensor(rows, s.states.batches))
	}
	inputs = append(inputs, s.states.of(&c.of.state, c.start)...)
	began := time.Now()
	response, err := s.runs.Infer(ctx, s.request(c.call, inputs, c.call.want))
	if err != nil {
		return nil, err
	}
	if err := s.settle(c, response.Outputs); err != nil {
		response.Release()
		return nil, err
	}
	response.Outputs = response.Outputs[:len(c.call.want)]
	response.Timing.Queue += began.Sub(c.arrived)
	return response, nil
}

func (s *Sequences) signal(c *turn) signal {
	return signal{start: c.start, end: c.end, ready: true, key: c.of.key}
}

// request makes a request of the model as it runs.
func (s *Sequences) request(call *sequenceCall, inputs []edgewise.Tensor, want []string) *edgewise.Request {
	return &edgewise.Request{
		ID: call.request.ID, Model: s.version.ID, Inputs: inputs, Outputs: s.states.wanted(want), Parameters: call.request.Parameters,
	}
}

// settle keeps the state among the outputs of a request, unless its sequence ends with it.
func (s *Sequences) settle(c *turn, outputs []edgewise.Tensor) error {
	if len(s.states.rules) == 0 || c.end {
		return nil
	}
	return s.states.keep(&c.of.state, outputs)
}

// seats are slots of requests that run as they are: as many as there are instances times each.
type seats struct {
	table       *sequenceTable
	each        int
	limit, used int
}

func (s *seats) take(*sequence) bool {
	if s.used >= s.limit {
		return false
	}
	s.used++
	return true
}

func (s *seats) give(*sequence)       { s.used-- }
func (s *seats) resize(instances int) { s.limit = instances * s.each }

// advance gives the next request its turn.
func (s *seats) advance(q *sequence) { s.table.start(q).granted <- struct{}{} }
