package ensemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"pgregory.net/rapid"
)

// world is a random ensemble together with what it must answer, worked out step by step. Every tensor is a matrix of
// rows of two numbers. A step's model answers sum(inputs) + bias, after a time, or fails.
type world struct {
	zoo     *zoo
	model   *edgewise.Model
	tensors []string // that a step may take, in the order in which they are made
	bias    []float32
	failing []bool
	clients []client
}

// client is a request and how long its sender waits; 0: endlessly.
type client struct {
	base     float32
	wanted   []string
	patience time.Duration
}

// drawWorld makes a graph whose steps take tensors that were made before.
func drawWorld(rt *rapid.T, t *testing.T) *world {
	w := &world{zoo: newZoo(t), tensors: []string{"x"}}
	n := rapid.IntRange(1, 8).Draw(rt, "steps")
	var steps []edgewise.EnsembleStep
	for i := range n {
		steps = append(steps, w.drawStep(rt, i))
	}
	used := map[string]bool{}
	for _, s := range steps {
		for _, from := range s.InputMap {
			used[from] = true
		}
		if s.Condition != nil {
			used[s.Condition.Tensor] = true
			used[s.Condition.DefaultOutput["y"].Tensor] = true
		}
	}
	var outputs []string
	for _, name := range w.tensors[1:] {
		if !used[name] || rapid.IntRange(0, 3).Draw(rt, "output") == 0 {
			outputs = append(outputs, name+":FP32[-1,2]")
		}
	}
	w.model = pipeline(0, []string{"x:FP32[-1,2]"}, outputs, steps...)
	w.model.EnsembleScheduling.MaxInflightRequests = rapid.SampledFrom([]uint32{0, 0, 1, 3}).Draw(rt, "inflight")
	return w
}

func (w *world) drawStep(rt *rapid.T, i int) edgewise.EnsembleStep {
	name, to := fmt.Sprint("m", i), fmt.Sprint("t", i)
	from := rapid.SampledFrom(w.tensors).Draw(rt, "from")
	if i == 0 {
		from = "x"
	}
	s := stepOf(name, names{"x": from}, names{"y": to})
	batch, in, out := int32(0), []string{"x:FP32[-1,2]"}, []string{"y:FP32[-1,2]"}
	switch kind := rapid.IntRange(0, 4).Draw(rt, "kind"); kind {
	case 0: // two inputs
		s.InputMap["z"] = rapid.SampledFrom(w.tensors).Draw(rt, "second")
		in = append(in, "z:FP32[-1,2]")
	case 1, 2: // a fan-out
		batch, in, out = int32(rapid.IntRange(0, 3).Draw(rt, "batch")), []string{"x:FP32[2]"}, []string{"y:FP32[2]"}
		s.FanOut = &edgewise.EnsembleFanOut{Input: []string{"x"}}
	case 3: // a batch of any size
		batch, in, out = 64, []string{"x:FP32[2]"}, []string{"y:FP32[2]"}
	}
	if rapid.IntRange(0, 2).Draw(rt, "conditional") == 0 {
		s.Condition = &edgewise.EnsembleCondition{
			Tensor: rapid.SampledFrom(w.tensors).Draw(rt, "on"), Value: float64(rapid.IntRange(-20, 20).Draw(rt, "value")),
			Operator: rapid.SampledFrom([]string{less, greater}).Draw(rt, "operator"),
			Over:     rapid.SampledFrom([]string{overAny, overAll}).Draw(rt, "over"), Otherwise: stop,
		}
		if rapid.Bool().Draw(rt, "skips") {
			s.Condition.Otherwise = skip
			s.Condition.DefaultOutput = map[string]edgewise.EnsembleDefault{"y": {Tensor: rapid.SampledFrom(w.tensors).Draw(rt, "default")}}
		}
	}
	bias := float32(rapid.IntRange(-9, 9).Draw(rt, "bias"))
	fails := rapid.IntRange(0, 14).Draw(rt, "fails") == 0
	behave := plus(bias)
	if fails {
		behave = func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) {
			return nil, edgewise.Errorf("x", edgewise.Guest, "%s fails", name)
		}
	}
	w.zoo.add(name, batch, in, out, after(time.Duration(rapid.IntRange(0, 3).Draw(rt, "time"))*time.Millisecond, behave))
	w.tensors, w.bias, w.failing = append(w.tensors, to), append(w.bias, bias), append(w.failing, fails)
	return s
}

// expected works out every tensor for an input, one step after the other; nil: it is not made. fails tells which steps
// would fail the request.
func (w *world) expected(x []float32) (made map[string][]float32, fails []bool) {
	made = map[string][]float32{"x": x}
	for i, s := range w.model.EnsembleScheduling.Step {
		to := s.OutputMap["y"]
		fails = append(fails, false)
		var sum []float32
		missing := false
		for _, from := range []string{s.InputMap["x"], s.InputMap["z"]} {
			if from == "" {
				continue
			}
			v := made[from]
			missing = missing || v == nil
			if sum == nil {
				sum = slices.Clone(v)
				continue
			}
			for k := range v {
				if !missing {
					sum[k] += v[k]
				}
			}
		}
		if missing {
			continue
		}
		if c := s.Condition; c != nil && !agrees(c, made[c.Tensor]) {
			if c.Otherwise == skip {
				made[to] = made[c.DefaultOutput["y"].Tensor]
			}
			continue
		}
		fails[i] = w.failing[i]
		for k := range sum {
			sum[k] += w.bias[i]
		}
		made[to] = sum
	}
	return made, fails
}

func agrees(c *edgewise.EnsembleCondition, v []float32) bool {
	if v == nil {
		return false
	}
	holds := func(x float32) bool {
		return c.Operator == less && float64(x) < c.Value || c.Operator == greater && float64(x) > c.Value
	}
	if c.Over == overAll {
		return !slices.ContainsFunc(v, func(x float32) bool { return !holds(x) })
	}
	return slices.ContainsFunc(v, holds)
}

// TestEveryRequestGetsItsOwnAnswerOnce runs many requests at a time through random graphs. The zoo fails the test for a
// response that is not released and overwrites released ones, so bytes that are read too late are wrong; synctest fails
// it for a goroutine that stays.
func TestEveryRequestGetsItsOwnAnswerOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt, t)
		for i := range 6 {
			w.clients = append(w.clients, client{
				float32(rapid.IntRange(0, 1000).Draw(rt, "base") + i), drawWanted(rt, w.model),
				time.Duration(rapid.IntRange(0, 12).Draw(rt, "patience")) * time.Millisecond,
			})
		}
		var problems []error
		t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { problems = w.run(t) })
		})
		if err := errors.Join(problems...); err != nil {
			rt.Fatal(err)
		}
	})
}

// run sends all requests at once and says what was wrong.
func (w *world) run(t *testing.T) []error {
	w.zoo.t = t
	e := w.zoo.ensemble(w.model)
	problems := make([]error, len(w.clients))
	var sent sync.WaitGroup
	for i, c := range w.clients {
		sent.Go(func() { problems[i] = w.ask(t.Context(), e, c) })
	}
	sent.Wait()
	if s := e.Statistics(); s.Success.Count+s.Fail.Count != uint64(len(w.clients)) {
		problems = append(problems, fmt.Errorf("%d requests succeeded and %d failed", s.Success.Count, s.Fail.Count))
	}
	if n := w.zoo.held.Load(); n != 0 {
		problems = append(problems, fmt.Errorf("%d responses were not released", n))
	}
	return problems
}

func drawWanted(rt *rapid.T, m *edgewise.Model) []string {
	var wanted []string
	for _, out := range m.Output {
		if rapid.Bool().Draw(rt, "wanted") {
			wanted = append(wanted, out.Name)
		}
	}
	return wanted
}

// ask asks once, compares, and says what is wrong.
func (w *world) ask(ctx context.Context, e *Ensemble, c client) error {
	base, wanted, patience := c.base, c.wanted, c.patience
	x := []float32{base, base + 1, -base, 0, 1, 2}
	rows := 1 + int(base)%3
	x = x[:2*rows]
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	r, err := e.Infer(ctx, &edgewise.Request{ID: fmt.Sprint(base), Inputs: []edgewise.Tensor{floats("x", x, int64(rows), 2)}, Outputs: wanted})
	defer r.Release()
	made, fails := w.expected(x)
	if err != nil {
		return w.failure(err, patience, fails)
	}
	if len(wanted) == 0 {
		for _, out := range w.model.Output {
			wanted = append(wanted, out.Name)
		}
	}
	at := 0
	for _, name := range wanted {
		if made[name] == nil {
			continue
		}
		if at == len(r.Outputs) || r.Outputs[at].Name != name || !slices.Equal(values(r.Outputs[at]), made[name]) ||
			r.Outputs[at].Check() != nil {
			return fmt.Errorf("request %v: output %s is not %v: %v", base, name, made[name], r.Outputs)
		}
		at++
	}
	if at != len(r.Outputs) || r.ID != fmt.Sprint(base) {
		return fmt.Errorf("request %v: response %q with outputs %v, want %v", base, r.ID, r.Outputs, wanted)
	}
	return nil
}

// failure says why an error is none that this request could have had.
func (w *world) failure(err error, patience time.Duration, fails []bool) error {
	switch {
	case edgewise.KindOf(err) == edgewise.Deadline && patience > 0:
		return nil
	case edgewise.KindOf(err) != edgewise.Guest:
		return fmt.Errorf("unexpected: %w", err)
	}
	for i, f := range fails {
		if f && err.Error() == fmt.Sprintf("in ensemble 'E', m%d fails", i) {
			return nil
		}
	}
	return fmt.Errorf("not this request's failure: %w", err)
}
