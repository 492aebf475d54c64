package wasm

import (
	"context"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// stream is a decoupled step. It sends responses while it runs, by emit. What it returns is its last response; a list
// without tensors is nothing but the end.
type stream struct{ *step }

var _ edgewise.Answerer = stream{}

// Answer runs the step for each call, one after the other.
func (s stream) Answer(_ context.Context, calls []*edgewise.Call) error {
	for _, c := range calls {
		s.answer(c)
	}
	return nil
}

func (s stream) answer(c *edgewise.Call) {
	req := c.Request
	result, err := s.run(c.Context, &task{
		in: req.Inputs, want: c.Want,
		options: edgewise.RunOptions{Parameters: req.Parameters, Callers: req.Callers, Trial: req.Trial},
		emit:    func(r *edgewise.Result) error { return c.Answer(r, false, nil) },
	})
	if err == nil && len(result.Outputs) == 0 {
		result.Free()
		result = nil
	}
	_ = c.Answer(result, true, err)
}

// task is one request to a step.
type task struct {
	in      []edgewise.Tensor
	want    []string
	options edgewise.RunOptions
	emit    func(*edgewise.Result) error // nil: there is one response
}

// importEmit sends a response, and waits while its reader does. It is refused with a reason that the step can read. A
// list that cannot be a response stops the step, as does the end of its request.
func importEmit(a arguments) {
	c := a.c
	reason := ""
	switch {
	case !c.request || c.nested:
		reason = "emit: only edgewise_process may call it"
	case c.task.emit == nil:
		reason = "emit: the model is not decoupled: a request has one response"
	}
	if reason != "" {
		c.lastError = reason
		a.result(-1)
		return
	}
	outputs, wrong := readList(whole(a.mem), a.u32(0), "step: emit: output")
	if wrong != nil {
		panic(&ending{wrong})
	}
	result, err := c.s.emitted(c, outputs)
	if err != nil {
		panic(err)
	}
	start := time.Now()
	c.rest()
	err = c.task.emit(result)
	c.resume()
	c.waited(time.Since(start))
	c.check(c.used())
	if err != nil {
		c.lastError = err.Error()
		a.result(-1)
		return
	}
	a.result(0)
}

// emitted copies outputs: the step goes on.
func (s *step) emitted(c *call, outputs []edgewise.Tensor) (*edgewise.Result, error) {
	chosen, err := s.choose(outputs, c.task.in, c.task.want)
	if err == nil && len(chosen) == 0 && len(outputs) == 0 {
		err = edgewise.Errorf("wasm.Run", edgewise.Guest, "step: emit: the list has no outputs")
	}
	if err == nil {
		err = c.finishPictures(chosen)
	}
	if broken, ok := errors.AsType[*edgewise.Error](err); ok {
		return nil, &ending{broken}
	}
	c.pictures = c.pictures[:0]
	copyData(chosen)
	return &edgewise.Result{Outputs: chosen, Free: func() {}}, nil
}

// waited notes the time that the reader of a response took, which is not the step's.
func (c *call) waited(took time.Duration) {
	c.away += took
	if c.timeout != 0 {
		c.deadline = c.deadline.Add(took)
	}
	if !c.turn.long {
		c.turn.began = c.turn.began.Add(took)
	}
}

// Bounds of Run.
const (
	maxJoined      = 4096     // responses
	maxJoinedBytes = 64 << 20 // of them together
)

// Run collects all responses and puts them behind each other on dimension 0, for trials of the step and cases of its
// author. Clients have it by Answer.
func (s stream) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	var parts []edgewise.Tensor
	responses, size := 0, 0
	add := func(r *edgewise.Result) error {
		defer r.Free()
		if responses++; responses > maxJoined {
			return edgewise.Errorf("wasm.Run", edgewise.TooLarge, "more than %d responses are too many for one run", maxJoined)
		}
		copyData(r.Outputs)
		for _, t := range r.Outputs {
			if size += len(t.Data); size > maxJoinedBytes {
				return edgewise.Errorf("wasm.Run", edgewise.TooLarge, "responses of more than %d bytes are too many for one run",
					maxJoinedBytes)
			}
			parts = append(parts, t)
		}
		return nil
	}
	result, err := s.run(ctx, &task{in: in, want: want, options: options, emit: add})
	if err != nil {
		return nil, err
	}
	if err := add(result); err != nil {
		return nil, err
	}
	result.Free = func() {}
	result.Outputs, err = join(parts, want)
	return result, err
}

// join puts the parts of each output behind each other. Error: Guest for parts that do not fit together.
func join(parts []edgewise.Tensor, want []string) (joined []edgewise.Tensor, err error) {
	for _, name := range want {
		var whole *edgewise.Tensor
		for i := range parts {
			switch t := &parts[i]; {
			case t.Name != name:
			case whole == nil:
				whole = t
			case len(t.Shape) == 0 || len(whole.Shape) == 0 || !t.Shape[1:].Equal(whole.Shape[1:]):
				return nil, edgewise.Errorf("wasm.Run", edgewise.Guest,
					"output %q has shape %v in one response and %v in another: they cannot be put behind each other", name,
					whole.Shape, t.Shape)
			default:
				whole.Shape[0] += t.Shape[0]
				whole.Data = append(whole.Data, t.Data...)
			}
		}
		if whole != nil {
			joined = append(joined, *whole)
		}
	}
	return joined, nil
}
