package ensemble

import (
	"context"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// outcome is the result of a step: a value for each of its outputs.
type outcome struct {
	values  []value
	lease   *lease // of the model's response, nil when the values do not alias it
	timing  edgewise.Timing
	stopped bool // its condition stopped it
}

// step runs one step, or does what its condition and missing tensors say.
func (r *run) step(i int) (*outcome, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	s := &r.e.graph.steps[i]
	if out := r.spared(i, s); out != nil {
		if i == r.decoupled {
			return r.instead(i, out)
		}
		return out, nil
	}
	start := time.Now()
	out, err := r.run(i, s)
	took := time.Since(start)
	r.e.measured.step(i, func(st *edgewise.StepStatistics) {
		if err != nil {
			st.Fail.Add(took)
			return
		}
		st.Success.Add(took)
	})
	return out, err
}

// spared is the outcome of a step that does not run; nil: it runs.
func (r *run) spared(i int, s *step) *outcome {
	for _, in := range s.inputs {
		if r.values[in.tensor].absent && (!in.optional || in.cut) {
			r.e.measured.step(i, func(st *edgewise.StepStatistics) { st.Stopped++ })
			return s.nothing()
		}
	}
	c := s.condition
	if c == nil || r.holds(c) {
		return nil
	}
	if c.stop {
		r.e.measured.step(i, func(st *edgewise.StepStatistics) { st.Stopped++ })
		out := s.nothing()
		out.stopped = true
		return out
	}
	r.e.measured.step(i, func(st *edgewise.StepStatistics) { st.Skipped++ })
	return r.defaults(s)
}

// holds tells whether a condition holds. A tensor that was not given has no element that could agree.
func (r *run) holds(c *condition) bool {
	v := &r.values[c.tensor]
	return !v.absent && c.holds(&v.Tensor)
}

func (r *run) run(i int, s *step) (*outcome, error) {
	names, inputs := r.inputs(s)
	want, at := r.want(s)
	switch {
	case s.fan != nil:
		return r.fanOut(i, names, inputs, want, at)
	case i == r.decoupled:
		return r.stream(i, inputs, want, at)
	}
	response, err := r.ask(r.context(i), i, inputs, want, nil)
	if err != nil {
		return nil, err
	}
	out, err := r.outcome(i, response, want, at)
	if err != nil {
		response.Release()
		return nil, err
	}
	out.timing = response.Timing
	return out, nil
}

// outcome is what a response of a step's model makes.
func (r *run) outcome(i int, response *edgewise.Response, want []string, at []int) (*outcome, error) {
	s := &r.e.graph.steps[i]
	out := s.nothing()
	out.lease = &lease{response: response}
	for k, o := range at {
		answer, err := find(response, s, want[k])
		if err != nil {
			return nil, err
		}
		if answer == nil {
			out.stopped = response.Parameters[stoppedAt] != nil
			continue
		}
		tensor := *answer
		tensor.Name = r.e.graph.tensors[s.outputs[o].tensor].name
		out.values[o] = value{Tensor: tensor, lease: out.lease}
	}
	return out, nil
}

// nothing is the outcome of a step that makes nothing.
func (s *step) nothing() *outcome {
	out := &outcome{values: make([]value, len(s.outputs))}
	for i := range out.values {
		out.values[i].absent = true
	}
	return out
}

// defaults is the outcome of a step that is skipped.
func (r *run) defaults(s *step) *outcome {
	out := s.nothing()
	for i, d := range s.defaults {
		if d.tensor == noStep {
			out.values[i] = value{Tensor: d.constant}
			continue
		}
		out.values[i] = r.values[d.tensor]
		out.values[i].Name = r.e.graph.tensors[s.outputs[i].tensor].name
	}
	return out
}

// inputs are the tensors that the step's model gets, under its names. Optional ones that are not there are left out.
func (r *run) inputs(s *step) (names []mapping, inputs []edgewise.Tensor) {
	for _, in := range s.inputs {
		v := &r.values[in.tensor]
		if v.absent {
			continue
		}
		t := v.Tensor
		t.Name, t.Shape = in.name, in.adaption.of(t.Shape)
		names, inputs = append(names, in), append(inputs, t)
	}
	return names, inputs
}

// want lists the outputs of the step's model that this run uses, and which of the step's outputs they are.
func (r *run) want(s *step) (names []string, at []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, o := range s.outputs {
		if r.uses[o.tensor] > 0 {
			names, at = append(names, o.name), append(at, i)
		}
	}
	return names, at
}

// ask sends one request to a step's model. each is Request.Each.
func (r *run) ask(
	ctx context.Context, i int, inputs []edgewise.Tensor, want []string, each func(*edgewise.Response) error,
) (*edgewise.Response, error) {
	s := &r.e.graph.steps[i]
	if slices.Contains(r.req.Callers, s.id.Name) {
		return nil, edgewise.Errorf("ensemble.ask", edgewise.Guest,
			"%s waits for this answer already: steps cannot call each other in a circle", s.label)
	}
	gate := r.e.gates[i]
	start := time.Now()
	entered, err := gate.enter(ctx)
	if entered.waited {
		took := time.Since(start)
		r.e.measured.step(i, func(st *edgewise.StepStatistics) { st.Wait.Add(took) })
	}
	if err != nil {
		return nil, err
	}
	defer gate.leave(entered)
	ctx = entered.ctx
	req := &edgewise.Request{
		ID: r.req.ID, Model: s.id, Inputs: inputs, Outputs: want, Parameters: r.req.Parameters,
		Priority: r.req.Priority, Timeout: r.req.Timeout, Callers: r.req.Callers, Pictures: r.pictures(s, want),
		Background: r.req.Background, Each: each, Stop: r.req.Stop,
	}
	if s.fan == nil {
		req.Sequence = r.sequence
	}
	recorder := edgewise.RecorderOf(ctx)
	if recorder == nil {
		return r.e.config.Infer.Infer(ctx, req)
	}
	ctx, answered := recorder.Ask(ctx, i, req)
	resp, err := r.e.config.Infer.Infer(ctx, req)
	answered(resp, err)
	return resp, err
}

// find returns an output of an answer; nil when the model is an ensemble itself that has stopped before it, and when it
// is decoupled: then a response may have only some.
func find(response *edgewise.Response, s *step, name string) (*edgewise.Tensor, error) {
	for i := range response.Outputs {
		if response.Outputs[i].Name == name {
			return &response.Outputs[i], nil
		}
	}
	if response.Parameters[stoppedAt] != nil || s.decoupled() {
		return nil, nil
	}
	return nil, edgewise.Errorf("ensemble.run", edgewise.Internal, "%s answered without its output '%s'", s.label, name)
}

// reading is the one step that reads a tensor, and the name of its model's input; step is noStep when several do, or
// when the tensor has to be there for something else.
type reading struct {
	step  int
	input string
}

// readers finds, for each tensor, who could take it as pictures: a tensor that one step reads, once and with all of its
// dimensions. An output of the ensemble has to be there, and so has what a condition looks at, what a fan-out cuts or
// joins, and what a default hands on.
func (g *graph) readers() []reading {
	list := make([]reading, len(g.tensors))
	for t := range list {
		list[t].step = noStep
		if producer := g.tensors[t].producer; producer >= 0 && g.steps[producer].fan == nil &&
			len(g.tensors[t].consumers) == 1 && !g.tensors[t].output && g.together(producer, g.tensors[t].consumers[0]) {
			list[t] = g.steps[g.tensors[t].consumers[0]].reading(t, g.tensors[t].consumers[0])
		}
	}
	return list
}

// reading tells how a step, whose number is given, reads a tensor.
func (s *step) reading(t, number int) reading {
	r := reading{step: noStep}
	if s.fan != nil || s.condition != nil && s.condition.tensor == t {
		return r
	}
	for _, d := range s.defaults {
		if d.tensor == t {
			return r
		}
	}
	for _, in := range s.inputs {
		if in.tensor != t {
			continue
		}
		if r.step != noStep || in.adaption.kind == outOfBatch {
			return reading{step: noStep}
		}
		r = reading{number, in.name}
	}
	return r
}

// pictures are the outputs of step s, among those wanted, that the model which reads them accepts as pictures.
func (r *run) pictures(s *step, want []string) (names []string) {
	if r.e.config.Pictures == nil {
		return nil
	}
	for _, o := range s.outputs {
		reader := r.e.readers[o.tensor]
		if reader.step != noStep && slices.Contains(want, o.name) &&
			r.e.config.Pictures(r.e.graph.steps[reader.step].id, reader.input) {
			names = append(names, o.name)
		}
	}
	return names
}
