package ensemble

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// fanOutWindow is how many requests of one fan-out are with the step's model at a time, at most. It fills the batches
// of several instances and keeps one request of the ensemble from filling the model's queue.
const fanOutWindow = 32

// rowsRun is the requests of one fan-out and their answers.
type rowsRun struct {
	run     *run
	step    int
	want    []string
	asked   [][]edgewise.Tensor
	answers []*edgewise.Response
	next    atomic.Int64 // of asked
	cancel  context.CancelFunc

	mu      sync.Mutex // guards failure
	failure error
}

// fanOut asks the step's model about each row and joins the answers.
func (r *run) fanOut(i int, names []mapping, inputs []edgewise.Tensor, want []string, at []int) (*outcome, error) {
	s := &r.e.graph.steps[i]
	leading, rows, err := s.fan.count(s, names, inputs)
	if err != nil {
		return nil, err
	}
	r.e.measured.step(i, func(st *edgewise.StepStatistics) { st.Rows += uint64(rows) })
	if rows == 0 {
		out := s.nothing()
		for _, o := range at {
			out.values[o] = value{Tensor: empty(r.e.graph.tensors[s.outputs[o].tensor].name, leading, outputOf(s.model, s.outputs[o].name))}
		}
		return out, nil
	}
	asked, err := s.fan.cut(s, names, inputs, rows)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	f := &rowsRun{run: r, step: i, want: want, asked: asked, answers: make([]*edgewise.Response, len(asked)), cancel: cancel}
	f.all(ctx)
	out, err := f.outcome(leading, rows, at)
	if err != nil || out.lease == nil {
		for _, answer := range f.answers {
			answer.Release()
		}
	}
	return out, err
}

// all returns when every request has been answered, or one has failed and no other is in progress.
func (f *rowsRun) all(ctx context.Context) {
	var others sync.WaitGroup
	window := fanOutWindow
	if room := cap(f.run.e.gates[f.step].tokens); room > 0 {
		window = min(room, window)
	}
	for range min(len(f.asked), window) - 1 {
		others.Go(func() { f.some(ctx) })
	}
	f.some(ctx)
	others.Wait()
}

// some takes one request after the other.
func (f *rowsRun) some(ctx context.Context) {
	for {
		k := int(f.next.Add(1)) - 1
		if k >= len(f.asked) {
			return
		}
		err := ctx.Err()
		if err == nil {
			f.answers[k], err = safely(f.run, f.step, func() (*edgewise.Response, error) {
				return f.run.ask(ctx, f.step, f.asked[k], f.want, nil)
			})
		}
		if err != nil {
			f.fail(err)
			return
		}
	}
}

// fail keeps the first failure and cancels the other requests.
func (f *rowsRun) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil {
		f.failure = err
	}
	f.cancel()
}

func (f *rowsRun) outcome(leading edgewise.Shape, rows int, at []int) (*outcome, error) {
	if f.failure != nil {
		return nil, f.failure
	}
	s := &f.run.e.graph.steps[f.step]
	out := s.nothing()
	for _, answer := range f.answers {
		out.timing.Add(answer.Timing)
	}
	if len(f.answers) == 1 {
		out.lease = &lease{response: f.answers[0]}
	}
	for k, o := range at {
		parts, err := f.parts(s, f.want[k])
		if err != nil {
			return nil, err
		}
		if parts == nil {
			out.stopped = true
			continue
		}
		joined, err := s.fan.join(f.run.e.graph.tensors[s.outputs[o].tensor].name, leading, rows, parts)
		if err != nil {
			return nil, edgewise.Errorf("ensemble.fanOut", edgewise.Internal, "%s: %w", s.label, err)
		}
		out.values[o] = value{Tensor: joined, lease: out.lease}
	}
	return out, nil
}

// parts are the answers of all rows for one output; nil when one of them was stopped.
func (f *rowsRun) parts(s *step, name string) ([]*edgewise.Tensor, error) {
	parts := make([]*edgewise.Tensor, len(f.answers))
	for n, answer := range f.answers {
		part, err := find(answer, s, name)
		if err != nil || part == nil {
			return nil, err
		}
		parts[n] = part
	}
	return parts, nil
}
