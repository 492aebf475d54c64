package ensemble

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
)

// maxPasses is how many passes behind one decoupled step are in progress at a time. With max_inflight_requests it is
// that number, if it is lower.
const maxPasses = 8

// reply is what all passes of a request have in common: the reader of its responses, and why it fails.
type reply struct {
	e      *Ensemble
	each   func(*edgewise.Response) error // nil: the ensemble has one response
	cancel context.CancelFunc             // ends every request to a step

	mu      sync.Mutex // guards failure
	failure error      // the first one, which made the others fail

	// One response is delivered at a time.
	came  time.Time     // the request
	since time.Time     // the client had the response before, or the request began
	place int           // of the next response
	first time.Duration // until the first response was there
}

func newReply(e *Ensemble, req *edgewise.Request, cancel context.CancelFunc) *reply {
	now := time.Now()
	return &reply{e: e, each: req.Each, cancel: cancel, came: req.Came(), since: now}
}

// fail keeps the first failure and cancels the other steps.
func (r *reply) fail(err error) {
	r.mu.Lock()
	if r.failure == nil {
		r.failure = err
	}
	r.mu.Unlock()
	r.cancel()
}

// failed returns why the request fails; nil: it does not.
func (r *reply) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// deliver hands a response to the client, which owns it then, and waits while the client reads.
func (r *reply) deliver(resp *edgewise.Response) error {
	made := r.made()
	err := r.each(resp)
	now := time.Now()
	how := func(s *edgewise.ResponseStatistics) *edgewise.Duration { return &s.Success }
	if err != nil {
		how = func(s *edgewise.ResponseStatistics) *edgewise.Duration { return &s.Aborted }
	}
	r.e.measured.responded(r.place, made, now.Sub(r.since)-made, how)
	r.place, r.since = r.place+1, now
	return err
}

// end counts the last response of a decoupled ensemble, or the error in its place.
func (r *reply) end(resp *edgewise.Response, err error) {
	if r.each == nil {
		return
	}
	how := func(s *edgewise.ResponseStatistics) *edgewise.Duration { return &s.Success }
	switch {
	case err != nil:
		how = func(s *edgewise.ResponseStatistics) *edgewise.Duration { return &s.Fail }
	case resp.Empty:
		how = func(s *edgewise.ResponseStatistics) *edgewise.Duration { return &s.Empty }
	}
	r.e.measured.responded(r.place, r.made(), 0, how)
	if resp != nil {
		resp.Timing.First = r.first
	}
}

// made returns the time since the response before, and notes when the first one was there.
func (r *reply) made() time.Duration {
	now := time.Now()
	if r.place == 0 {
		r.first = now.Sub(r.came)
	}
	return now.Sub(r.since)
}

// passes are those behind a decoupled step: one for each of its responses, through the steps that need it. Their
// responses leave in the order of the step's. While the client does not read, maxPasses of them are held and the
// decoupled step waits.
type passes struct {
	run    *run // that the step belongs to
	step   int
	want   []string // outputs of the step
	at     []int    // which of its outputs these are
	slots  chan struct{}
	order  ordering.Order // of passes whose responses have not left
	beside sync.WaitGroup // passes in goroutines of their own
}

// stream asks the model of the decoupled step of a run, and sends each response through the steps behind it. The
// response of the last pass becomes that of the run.
func (r *run) stream(i int, inputs []edgewise.Tensor, want []string, at []int) (*outcome, error) {
	p := &passes{run: r, step: i, want: want, at: at, slots: make(chan struct{}, r.window())}
	response, err := r.ask(r.context(i), i, inputs, want, p.each)
	out := r.e.graph.steps[i].nothing()
	if err != nil {
		r.reply.fail(err)
	} else {
		out.timing = response.Timing
		r.last, err = p.final(response)
	}
	p.beside.Wait()
	if failure := r.reply.failed(); failure != nil {
		r.last.Release()
		return nil, failure
	}
	return out, err
}

// window is how many passes behind the decoupled step of r are in progress at a time. Where there is another decoupled
// step behind it each pass has many responses, and the passes take turns.
func (r *run) window() int {
	g := r.e.graph
	if slices.ContainsFunc(g.streams, func(s int) bool { return r.all[s] && g.behind[r.decoupled][s] }) {
		return 1
	}
	if most := g.model.EnsembleScheduling.MaxInflightRequests; most > 0 {
		return int(min(most, maxPasses))
	}
	return maxPasses
}

// each begins the pass of a response that is not the last one, and waits for room.
func (p *passes) each(resp *edgewise.Response) error {
	r := p.run
	if resp.Fault != nil {
		r.reply.fail(resp.Fault)
		return resp.Fault
	}
	child, err := p.pass(resp)
	if err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
	case <-r.ctx.Done():
		child.releaseAll()
		return r.ctx.Err()
	}
	place := p.order.NewPlace()
	place.Take()
	if cap(p.slots) == 1 {
		return p.forward(child, place)
	}
	p.beside.Go(func() { _ = p.forward(child, place) })
	return nil
}

// forward runs a pass, and delivers its response when those before have left.
func (p *passes) forward(child *run, place *ordering.Place) error {
	defer func() { <-p.slots }()
	defer place.Leave()
	r := p.run
	if child.sequence.Active() { // its steps keep a state from pass to pass
		if err := place.Wait(r.ctx); err != nil {
			child.releaseAll()
			return err
		}
	}
	resp, err := child.finished()
	if err != nil {
		return err
	}
	if err = place.Wait(r.ctx); err != nil || resp.Empty {
		resp.Release()
		return err
	}
	if _, err = safely(r, p.step, func() (any, error) { return nil, r.reply.deliver(resp) }); err != nil {
		r.reply.fail(err)
	}
	return err
}

// final runs the pass of the last response, if there is one, and returns the response of the run.
func (p *passes) final(resp *edgewise.Response) (*edgewise.Response, error) {
	if resp.Empty {
		resp.Release()
		return p.run.end(), nil
	}
	child, err := p.pass(resp)
	if err != nil {
		return nil, err
	}
	if child.sequence.Active() {
		p.beside.Wait()
	}
	return child.finished()
}

// pass makes the pass of a response, which it owns.
func (p *passes) pass(resp *edgewise.Response) (*run, error) {
	r := p.run
	out, err := r.outcome(p.step, resp, p.want, p.at)
	if err == nil {
		err = r.settle()
	}
	var sequence edgewise.Sequence
	if err == nil {
		sequence, err = redirected(r.sequence, resp.Parameters)
	}
	if err != nil {
		resp.Release()
		r.reply.fail(err)
		return nil, err
	}
	return r.pass(p.step, out, sequence), nil
}

// instead runs the one pass behind a decoupled step that does not run itself.
func (r *run) instead(i int, out *outcome) (*outcome, error) {
	if err := r.settle(); err != nil {
		return nil, err
	}
	for k := range out.values {
		out.values[k].lease, out.values[k].borrowed = nil, true
	}
	last, err := r.pass(i, out, r.sequence).finished()
	if err != nil {
		return nil, err
	}
	r.last = last
	return r.e.graph.steps[i].nothing(), nil
}

// settle waits until every other step of the run has ended: passes read what these have made.
func (r *run) settle() error {
	select {
	case <-r.settled:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// pass makes a run of the steps behind a decoupled step, which has made out. It reads the tensors of r, which outlives
// it.
func (r *run) pass(step int, out *outcome, sequence edgewise.Sequence) *run {
	child := &run{
		e: r.e, req: r.req, reply: r.reply, ctx: r.ctx, sequence: sequence, wanted: r.wanted, all: r.all,
		parent: r, values: slices.Clone(r.values), stopped: noStep,
	}
	for t := range child.values {
		child.values[t].lease, child.values[t].borrowed = nil, true
	}
	child.choose(step)
	free := child.keep(step, out)
	for _, l := range free {
		l.response.Release()
	}
	for _, o := range r.e.graph.steps[step].outputs {
		child.ready = child.arrived(o.tensor, child.ready)
	}
	return child
}

// finished runs a pass to its end, and returns its response: an Empty one when it has made none of the outputs.
func (r *run) finished() (*edgewise.Response, error) {
	r.work(r.ready)
	r.others.Wait()
	r.parent.mu.Lock()
	r.parent.timing.Add(r.timing)
	r.parent.mu.Unlock()
	if err := r.reply.failed(); err != nil {
		r.releaseAll()
		return nil, err
	}
	resp := r.response()
	if len(resp.Outputs) == 0 && !resp.Empty {
		resp.Release()
		return r.end(), nil
	}
	return resp, nil
}

// end is a response that is nothing but the end.
func (r *run) end() *edgewise.Response {
	return &edgewise.Response{
		ID: r.req.ID, Model: r.e.version.ID, Empty: true, Parameters: sequenceParameters(r.sequence),
	}
}

// redirected returns the sequence of requests to the steps behind a decoupled step: that of its own request, unless the
// parameters of its response say another, as in Triton. Error: Invalid, for parameters of other types.
func redirected(own edgewise.Sequence, p map[string]any) (edgewise.Sequence, error) {
	id, named := p["sequence_id"]
	start, starts := p["sequence_start"]
	end, ends := p["sequence_end"]
	if !named && !starts && !ends {
		return own, nil
	}
	to, ok := edgewise.Sequence{ID: own.ID, Name: own.Name}, true
	switch id := id.(type) {
	case int64:
		to.ID, to.Name = uint64(id), ""
	case string:
		to.ID, to.Name = 0, id
	default:
		ok = !named
	}
	if starts && ok {
		to.Start, ok = start.(bool)
	}
	if ends && ok {
		to.End, ok = end.(bool)
	}
	if !ok {
		return to, edgewise.Errorf("ensemble.redirected", edgewise.Invalid, "the parameters of a response are "+
			"sequence_id %v, sequence_start %v, sequence_end %v: want a number or a text, and truth values", id, start, end)
	}
	return to, nil
}
