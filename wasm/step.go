package wasm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/picture"
)

// step is a loaded version: the Instance in front of a pool of guests.
type step struct {
	version *edgewise.Version
	p       *program
	pool    *pool
	outputs map[string]edgewise.Spec // as the step sees them

	mu       sync.Mutex // guards what follows
	measured edgewise.GuestStatistics
}

var _ edgewise.Instance = (*step)(nil)

func newStep(v *edgewise.Version, p *program, l *pool) *step {
	s := &step{version: v, p: p, pool: l, outputs: map[string]edgewise.Spec{}}
	for _, out := range v.Model.Output {
		shape := guestShape(v.Model, out.Dims, out.Reshape)
		s.outputs[out.Name] = edgewise.Spec{Name: out.Name, Type: out.DataType, Shape: shape}
	}
	return s
}

// Run runs the step on one guest. The outputs stand in the guest's memory where another one is free to go on, else they
// are copied. Errors: Guest (the step failed, trapped, was stopped for what it used, or returned what cannot be),
// Deadline, Canceled, Unavailable (its guests failed one after the other), TooLarge (the inputs do not fit into a
// step), Internal.
func (s *step) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	return s.run(ctx, &task{in: in, want: want, options: options})
}

// run is Run for a task.
func (s *step) run(ctx context.Context, t *task) (*edgewise.Result, error) {
	if t.options.Trial {
		return s.try(ctx, t)
	}
	g, err := s.pool.take(ctx)
	if err != nil {
		return nil, s.wrap(err)
	}
	result := &edgewise.Result{}
	c, err := s.request(ctx, g, t, result)
	result.Guest.Fuel, result.Guest.Memory, result.Guest.Host = uint64(c.used()), int64(g.memory.size), c.host
	bypassed := err != nil && s.p.settings.policy == bypass && edgewise.KindOf(err) == edgewise.Guest && !c.failed
	s.count(c, result.Guest, err, bypassed)
	switch {
	case err != nil && c.failed:
		s.pool.recycle(g)
	case err != nil:
		if c.stopped && edgewise.KindOf(err) == edgewise.Guest {
			s.p.suspect()
		}
		s.pool.drop(g, err)
	default:
		s.hand(g, result)
		return result, nil
	}
	if bypassed {
		return s.bypass(t.in, t.want, result), nil
	}
	return nil, s.wrap(err)
}

// try runs the step on a guest of its own, which is closed afterwards: a trial leaves no state, counts in no statistics
// and is not held against the version.
func (s *step) try(ctx context.Context, t *task) (*edgewise.Result, error) {
	g, err := s.p.newGuest(ctx)
	if err != nil {
		return nil, s.wrap(err)
	}
	defer g.close()
	result := &edgewise.Result{Free: func() {}}
	if _, err := s.request(ctx, g, t, result); err != nil {
		return nil, s.wrap(err)
	}
	copyData(result.Outputs)
	return result, nil
}

// request is one request on one guest. The outputs stand in the guest's memory.
func (s *step) request(ctx context.Context, g *guest, t *task, result *edgewise.Result) (*call, error) {
	c := begin(ctx, s.p, s.p.config.RunTimeout, s.p.settings.fuel)
	defer c.rest()
	c.g, c.s, c.task, c.options = g, s, t, t.options
	s.p.share(&c.turn)
	c.fund()
	s.p.running.Add(1)
	defer s.p.running.Add(-1)
	return c, s.process(c, result)
}

// process passes the inputs to the guest, runs it, and reads its outputs.
func (s *step) process(c *call, result *edgewise.Result) error {
	start := time.Now()
	inputs, err := c.writeList(c.g.alloc, c.task.in)
	if err != nil {
		return err
	}
	running := time.Now()
	result.Input = running.Sub(start)
	c.request = true
	stack := [1]uint64{uint64(inputs)}
	err = c.invoke(exportProcess, c.g.process, stack[:])
	c.request = false
	ran := time.Now()
	result.Infer = ran.Sub(running) - c.away
	result.Guest.Time = max(result.Infer-c.host, 0)
	if err != nil {
		c.failed = false
		return err
	}
	pointer := uint32(stack[0])
	if pointer == 0 {
		return c.reason()
	}
	c.failed = false
	outputs, wrong := readList(whole(c.g.linear), pointer, "step: output")
	if wrong != nil {
		return wrong
	}
	if result.Outputs, err = s.choose(outputs, c.task.in, c.task.want); err != nil {
		return err
	}
	if err := c.finishPictures(result.Outputs); err != nil {
		return err
	}
	result.Output = time.Since(ran)
	return nil
}

// reason is the error of a step that returned 0.
func (c *call) reason() error {
	if !c.failed {
		return edgewise.Errorf("wasm.Run", edgewise.Guest,
			"step: edgewise_process returned 0 without a reason: want a list of outputs, or a call of fail")
	}
	return &edgewise.Error{Op: "wasm.Run", Kind: edgewise.Guest, Err: &edgewise.StepRefusal{Text: c.failure}}
}

// choose holds the outputs against the model and returns those that are wanted, in the order wanted. Only a decoupled
// step may leave out some.
func (s *step) choose(outputs, in []edgewise.Tensor, want []string) ([]edgewise.Tensor, error) {
	for i := range outputs {
		if err := s.checkOutput(&outputs[i], in); err != nil {
			return nil, err
		}
	}
	chosen := make([]edgewise.Tensor, 0, len(want))
	for _, name := range want {
		k := slices.IndexFunc(outputs, func(t edgewise.Tensor) bool { return t.Name == name })
		switch {
		case k >= 0:
			chosen = append(chosen, outputs[k])
		case !s.version.Model.Decoupled():
			return nil, edgewise.Errorf("wasm.Run", edgewise.Guest, "step: output %q is missing", name)
		}
	}
	return chosen, nil
}

func (s *step) checkOutput(t *edgewise.Tensor, in []edgewise.Tensor) error {
	spec, ok := s.outputs[t.Name]
	switch {
	case !ok:
		return edgewise.Errorf("wasm.Run", edgewise.Guest, "step: output %q: the model declares no such output", t.Name)
	case t.Type != spec.Type:
		return edgewise.Errorf("wasm.Run", edgewise.Guest, "step: output %q: dtype is %v: the model declares %v",
			t.Name, t.Type, spec.Type)
	case !spec.Shape.Accepts(t.Shape):
		return edgewise.Errorf("wasm.Run", edgewise.Guest, "step: output %q: shape is %v: the model declares %v",
			t.Name, t.Shape, spec.Shape)
	}
	if s.version.Model.MaxBatchSize > 0 && len(in) > 0 && t.Shape[0] != in[0].Shape[0] {
		return edgewise.Errorf("wasm.Run", edgewise.Guest,
			"step: output %q: shape is %v: dimension 0 is the batch, which has %d", t.Name, t.Shape, in[0].Shape[0])
	}
	return nil
}

// hand leaves the outputs in the guest's memory until the result is released, or copies them when that guest is needed.
func (s *step) hand(g *guest, result *edgewise.Result) {
	if s.pool.borrow() {
		var once sync.Once
		result.Free = func() {
			once.Do(func() {
				s.pool.returned()
				s.pool.recycle(g)
			})
		}
		return
	}
	copyData(result.Outputs)
	result.Free = func() {}
	s.pool.recycle(g)
}

// copyData gives tensors memory of their own.
func copyData(tensors []edgewise.Tensor) {
	for i := range tensors {
		picture.Settle(&tensors[i]) // its pixels stay behind
		tensors[i].Pictures = nil
		tensors[i].Data = slices.Clone(tensors[i].Data)
	}
}

// bypass answers with copies of the inputs.
func (s *step) bypass(in []edgewise.Tensor, want []string, result *edgewise.Result) *edgewise.Result {
	result.Outputs = make([]edgewise.Tensor, len(want))
	for i, name := range want {
		k := slices.IndexFunc(s.version.Model.Output, func(o edgewise.ModelOutput) bool { return o.Name == name })
		source := s.version.Model.Input[k].Name
		k = slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == source })
		result.Outputs[i] = in[k]
		result.Outputs[i].Name = name
	}
	copyData(result.Outputs)
	result.Free = func() {}
	return result
}

// count adds a run to what has been measured.
func (s *step) count(c *call, u edgewise.Usage, err error, bypassed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.measured
	m.Fuel += u.Fuel
	m.Memory = max(m.Memory, u.Memory)
	m.Time += u.Time
	m.Host += u.Host
	if bypassed {
		m.Bypassed++
	}
	switch {
	case err == nil:
	case c.failed:
		m.Failed++
	case c.stopped:
		m.Stopped++
	default:
		m.Trapped++
	}
}

// GuestStatistics returns what has been measured.
func (s *step) GuestStatistics() edgewise.GuestStatistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.measured
	m.Instances, m.Created = int(s.p.guests.Load()), s.p.created.Load()
	return m
}

// Close closes the guests and gives the code back.
func (s *step) Close() error {
	s.pool.close()
	s.p.close()
	return nil
}

// wrap names the version.
func (s *step) wrap(err error) error {
	return &edgewise.Error{
		Op: "wasm.Run", Kind: edgewise.KindOf(err), Model: s.version.ID,
		Err: fmt.Errorf("model %v: %w", s.version.ID, err),
	}
}
