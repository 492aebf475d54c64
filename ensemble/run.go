package ensemble

import (
	"context"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
)

// run is one request on its way through the graph, or a pass: what one response of a decoupled step makes of the steps
// behind it.
type run struct {
	e         *Ensemble
	req       *edgewise.Request
	reply     *reply
	parent    *run // of a pass: that of the decoupled step; nil: it is the request itself
	ctx       context.Context
	sequence  edgewise.Sequence // of the requests to its steps
	wanted    []int             // tensors to answer with, in the order of the response
	all       []bool            // steps that they need, those of passes included
	needed    []bool            // steps of this run
	decoupled int               // the one of needed whose responses are passes of their own; noStep: none
	ready     []int             // steps that a pass begins with
	others    sync.WaitGroup    // goroutines beside that of Infer
	queued    []func()          // by step: reports that its request has entered its queue; nil: not reported
	settled   chan struct{}     // closed when every step but the decoupled one has ended

	last *edgewise.Response // of the last pass, which the decoupled step has left

	// A value is written once, before the steps that wait for it begin; they read it without the lock.
	values []value

	mu      sync.Mutex // guards what follows
	waiting []int      // for each step, the tensors that are not there yet
	uses    []int      // for each tensor, the needed steps that have not ended, and the answer
	left    int        // needed steps that have not ended, without the decoupled one
	leases  []*lease
	timing  edgewise.Timing
	stopped int // the first step that was stopped by its condition, noStep: none
}

// value is a tensor during one request.
type value struct {
	edgewise.Tensor
	absent   bool   // it is not going to be made, or was not given
	borrowed bool   // the bytes belong to the caller of Infer
	lease    *lease // the bytes belong to this response; nil: it has none
}

// lease is a step's response and how many tensors of this run alias it.
type lease struct {
	response *edgewise.Response
	tensors  int
}

func newRun(ctx context.Context, e *Ensemble, req *edgewise.Request, reply *reply) *run {
	g := e.graph
	r := &run{
		e: e, req: req, reply: reply, ctx: ordering.WithQueued(ctx, nil), sequence: req.Sequence, stopped: noStep,
		all: make([]bool, len(g.steps)), values: make([]value, len(g.tensors)),
	}
	for i, t := range g.outputs {
		if len(req.Outputs) > 0 && !slices.Contains(req.Outputs, g.tensors[t].name) {
			continue
		}
		for step, needed := range g.needs[i] {
			r.all[step] = r.all[step] || needed
		}
	}
	if len(req.Outputs) == 0 {
		r.wanted = g.outputs
	}
	for _, name := range req.Outputs {
		r.wanted = append(r.wanted, g.index[name])
	}
	r.choose(noStep)
	return r
}

// choose finds the steps of a run: of a pass, those behind a decoupled step; and without those behind another one.
func (r *run) choose(behind int) {
	g := r.e.graph
	r.needed, r.queued = make([]bool, len(g.steps)), make([]func(), len(g.steps))
	r.waiting, r.uses = make([]int, len(g.steps)), make([]int, len(g.tensors))
	r.settled, r.decoupled = make(chan struct{}), noStep
	inside := func(s int) bool { return r.all[s] && (behind == noStep || g.behind[behind][s]) }
	if at := slices.IndexFunc(g.streams, inside); at >= 0 {
		r.decoupled = g.streams[at]
	}
	for _, t := range r.wanted {
		r.uses[t]++
	}
	for i := range g.steps {
		if !inside(i) {
			continue
		}
		for _, t := range g.steps[i].waits {
			r.uses[t]++
		}
		if r.decoupled != noStep && g.behind[r.decoupled][i] {
			continue
		}
		r.needed[i] = true
		if i != r.decoupled {
			r.left++
		}
		for _, t := range g.steps[i].waits {
			if p := g.tensors[t].producer; behind == noStep || p == behind || p >= 0 && g.behind[behind][p] {
				r.waiting[i]++
			}
		}
	}
	if r.left == 0 {
		close(r.settled)
	}
}

// begin gives the graph its inputs and runs until this goroutine finds nothing more to do. The ensemble's request,
// whose context ctx is, has entered its queue when those of the first steps have.
func (r *run) begin(ctx context.Context) {
	g := r.e.graph
	var ready []int
	for _, in := range g.model.Input {
		t := g.index[in.Name]
		r.values[t] = value{absent: true}
		for i := range r.req.Inputs {
			if r.req.Inputs[i].Name == in.Name {
				r.values[t] = value{Tensor: r.req.Inputs[i], borrowed: true}
				r.values[t].Shape = g.tensors[t].reshape.Apply(r.values[t].Shape)
			}
		}
	}
	for _, in := range g.model.Input {
		ready = r.arrived(g.index[in.Name], ready)
	}
	for i, queued := range queuedSteps(ctx, len(ready)) {
		r.queued[ready[i]] = queued
	}
	r.work(ready)
}

// context is that of a step's request.
func (r *run) context(s int) context.Context {
	if r.queued[s] == nil {
		return r.ctx
	}
	return ordering.WithQueued(r.ctx, r.queued[s])
}

// arrived counts a tensor as there and appends the steps that can begin.
func (r *run) arrived(t int, ready []int) []int {
	for _, s := range r.e.graph.tensors[t].consumers {
		if !r.needed[s] {
			continue
		}
		if r.waiting[s]--; r.waiting[s] == 0 {
			ready = append(ready, s)
		}
	}
	return ready
}

// work runs the steps that are ready and those that become ready: one after the other on this goroutine, and where
// there are several at a time, the others beside it.
func (r *run) work(ready []int) {
	for len(ready) > 0 {
		for _, other := range ready[1:] {
			r.others.Go(func() { r.work([]int{other}) })
		}
		s := ready[0]
		out, err := safely(r, s, func() (*outcome, error) { return r.step(s) })
		if queued := r.queued[s]; queued != nil {
			queued() // for a step that sent no request
		}
		ready = r.finish(s, out, err)
	}
}

// safely keeps a panic in a step, which is our own bug, from ending the process.
func safely[T any](r *run, s int, work func() (T, error)) (out T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.e.config.Logger.Error("ensemble panicked", "model", r.e.version.ID.String(), "step", s, "panic", cause, "stack", string(debug.Stack()))
			err = edgewise.Errorf("ensemble.run", edgewise.Internal, "%s panicked: %v", r.e.graph.steps[s].label, cause)
		}
	}()
	return work()
}

// finish keeps what a step has made and returns the steps that can begin now.
func (r *run) finish(s int, out *outcome, err error) (ready []int) {
	if err != nil {
		r.reply.fail(err)
		return nil
	}
	r.mu.Lock()
	free := append(r.keep(s, out), r.used(s)...)
	if s != r.decoupled {
		if r.left--; r.left == 0 {
			close(r.settled)
		}
		if r.reply.failed() == nil {
			for _, o := range r.e.graph.steps[s].outputs {
				ready = r.arrived(o.tensor, ready)
			}
		}
	}
	r.mu.Unlock()
	for _, l := range free {
		l.response.Release()
	}
	return ready
}

// keep makes the outputs of a step the values of their tensors, and returns its response when none of them is used.
// r.mu is held.
func (r *run) keep(s int, out *outcome) (free []*lease) {
	if out.lease != nil {
		r.leases = append(r.leases, out.lease)
	}
	for i, o := range r.e.graph.steps[s].outputs {
		v := out.values[i]
		if r.uses[o.tensor] == 0 {
			v = value{absent: true}
		}
		if v.lease != nil {
			v.lease.tensors++
		}
		r.values[o.tensor] = v
	}
	r.timing.Add(out.timing)
	if out.stopped && (r.stopped == noStep || s < r.stopped) {
		r.stopped = s
	}
	if out.lease != nil && out.lease.tensors == 0 {
		free = append(free, out.lease)
	}
	return free
}

// used counts that a step has ended and returns the responses that are not needed any more. r.mu is held.
func (r *run) used(s int) (free []*lease) {
	for _, t := range r.e.graph.steps[s].waits {
		if r.uses[t]--; r.uses[t] > 0 {
			continue
		}
		if l := r.values[t].lease; l != nil {
			if l.tensors--; l.tensors == 0 {
				free = append(free, l)
			}
		}
	}
	return free
}

// releaseAll releases the responses that are still held. No step is in progress. Releasing twice does nothing.
func (r *run) releaseAll() {
	for _, l := range r.leases {
		l.response.Release()
	}
}

// stoppedAt is the parameter of a response that names the model of the step at which outputs were left out.
const stoppedAt = "stopped_at"

// response is the answer of a run that has ended well: that of its last pass, if there were passes. The tensors in it
// alias the responses of steps, which it releases.
func (r *run) response() *edgewise.Response {
	resp := r.last
	if resp == nil {
		resp = r.own()
	} else {
		r.releaseAll()
	}
	resp.Timing = r.timing
	resp.Timing.Batch = r.batch()
	return resp
}

// own is the response of a run without passes.
func (r *run) own() *edgewise.Response {
	resp := &edgewise.Response{ID: r.req.ID, Model: r.e.version.ID, Parameters: sequenceParameters(r.sequence)}
	shared := false
	for _, t := range r.wanted {
		v := r.values[t]
		if v.absent {
			continue
		}
		if v.borrowed { // handed through by a default: the caller may use the bytes again
			v.Data = slices.Clone(v.Data)
		}
		made := &r.e.graph.tensors[t]
		v.Name, v.Shape = made.name, made.reshape.Apply(made.adaption.of(v.Shape))
		shared = shared || v.lease != nil
		resp.Outputs = append(resp.Outputs, v.Tensor)
	}
	if r.stopped != noStep {
		resp.Parameters[stoppedAt] = r.e.graph.steps[r.stopped].id.Name
	}
	if shared {
		resp.Free = r.releaseAll
	}
	return resp
}

func (r *run) batch() int {
	if r.e.graph.model.MaxBatchSize > 0 && len(r.req.Inputs) > 0 && len(r.req.Inputs[0].Shape) > 0 {
		return int(r.req.Inputs[0].Shape[0])
	}
	return 1
}

// sequenceParameters are what Triton puts into every answer of an ensemble.
func sequenceParameters(s edgewise.Sequence) map[string]any {
	p := map[string]any{"sequence_id": int64(min(s.ID, math.MaxInt64)), "sequence_start": s.Start, "sequence_end": s.End}
	if s.Name != "" {
		p["sequence_id"] = s.Name
	}
	return p
}
