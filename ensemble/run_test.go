package ensemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

var one, two = []string{"x:FP32[-1]"}, []string{"x:FP32[-1]", "z:FP32[-1]"}

var y = []string{"y:FP32[-1]"}

// after answers like behave, after a time.
func after(d time.Duration, behave behaviour) behaviour {
	return func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		select {
		case <-time.After(d):
			return behave(ctx, req)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// diamond is x -> left, right -> join -> y, and beside it x -> side -> s.
func diamond(t testing.TB) (*zoo, *edgewise.Model) {
	z := newZoo(t)
	z.add("left", 0, one, y, after(time.Second, plus(10)))
	z.add("right", 0, one, y, after(time.Second, plus(100)))
	z.add("side", 0, one, y, after(5*time.Second, plus(1000)))
	z.add("join", 0, two, y, plus(0))
	return z, pipeline(0, one, []string{"y:FP32[-1]", "s:FP32[-1]"},
		stepOf("join", names{"x": "l", "z": "r"}, names{"y": "y"}), stepOf("left", names{"x": "x"}, names{"y": "l"}),
		stepOf("right", names{"x": "x"}, names{"y": "r"}), stepOf("side", names{"x": "x"}, names{"y": "s"}))
}

func ask(t testing.TB, e *Ensemble, req *edgewise.Request) *edgewise.Response {
	t.Helper()
	r, err := e.Infer(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return r
}

func request(values ...float32) *edgewise.Request {
	return &edgewise.Request{ID: "id", Inputs: []edgewise.Tensor{floats("x", values)}}
}

func TestIndependentStepsRunAtTheSameTimeAndUnneededOnesNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, m := diamond(t)
		e := z.ensemble(m)
		start := time.Now()
		req := request(1, 2)
		req.Outputs = []string{"y"}
		r := ask(t, e, req)
		if took := time.Since(start); took != time.Second {
			t.Errorf("two steps of a second took %v", took)
		}
		if got := answerOf(t, r, "y"); !slices.Equal(got, []float32{112, 114}) {
			t.Errorf("answered %v", got)
		}
		if len(r.Outputs) != 1 || z.requests("side") != 0 {
			t.Errorf("a step that was not needed ran %d times; outputs %v", z.requests("side"), r.Outputs)
		}
		r.Release()
		start = time.Now()
		r = ask(t, e, request(1, 2))
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("all outputs took %v", took)
		}
		if len(r.Outputs) != 2 || r.Outputs[0].Name != "y" || r.Outputs[1].Name != "s" || answerOf(t, r, "s")[1] != 1002 {
			t.Errorf("outputs %v", r.Outputs)
		}
		if r.ID != "id" || r.Model != (edgewise.ModelID{Name: "E", Version: 7}) {
			t.Errorf("response of %v with id %q", r.Model, r.ID)
		}
	})
}

func TestOutputsComeInTheOrderAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, m := diamond(t)
		e := z.ensemble(m)
		req := request(1)
		req.Outputs = []string{"s", "y"}
		r := ask(t, e, req)
		if len(r.Outputs) != 2 || r.Outputs[0].Name != "s" || r.Outputs[1].Name != "y" {
			t.Errorf("outputs %v", r.Outputs)
		}
	})
}

func TestAFailingStepFailsTheRequestWithItsCauseAndCancelsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, m := diamond(t)
		z.behave["right"] = after(time.Millisecond, func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) {
			return nil, edgewise.Errorf("x", edgewise.Busy, "Exceeds maximum queue size")
		})
		e := z.ensemble(m)
		start := time.Now()
		_, err := e.Infer(t.Context(), request(1))
		if err == nil || err.Error() != "in ensemble 'E', Exceeds maximum queue size" || edgewise.KindOf(err) != edgewise.Busy {
			t.Errorf("got %v of kind %v", err, edgewise.KindOf(err))
		}
		if took := time.Since(start); took != time.Millisecond {
			t.Errorf("the failure took %v to come out", took)
		}
		if z.requests("join") != 0 {
			t.Error("a step ran after the failure")
		}
		s := e.Statistics()
		if s.Fail.Count != 1 || s.Success.Count != 0 || s.Failures[edgewise.Busy] != 1 || s.Steps[2].Fail.Count != 1 {
			t.Errorf("statistics %+v", s)
		}
	})
}

func TestAPanicOfAStepIsAnError(t *testing.T) {
	z, m := diamond(t)
	z.behave["right"] = func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) { panic("broken") }
	_, err := z.ensemble(m).Infer(t.Context(), request(1))
	if err == nil || edgewise.KindOf(err) != edgewise.Internal || !strings.Contains(err.Error(), "step 2 (model 'right') panicked: broken") {
		t.Errorf("got %v", err)
	}
}

func TestDeadlinesAndCancelsReachEveryStep(t *testing.T) {
	for _, kind := range []edgewise.Kind{edgewise.Deadline, edgewise.Canceled} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z, m := diamond(t)
				e := z.ensemble(m)
				ctx, cancel := context.WithCancel(t.Context())
				if kind == edgewise.Deadline {
					ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
				} else {
					time.AfterFunc(500*time.Millisecond, cancel)
				}
				defer cancel()
				start := time.Now()
				_, err := e.Infer(ctx, request(1))
				if err == nil || edgewise.KindOf(err) != kind || !strings.HasPrefix(err.Error(), "in ensemble 'E', ") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took != 500*time.Millisecond {
					t.Errorf("took %v", took)
				}
				if z.requests("join") != 0 {
					t.Error("a step ran after the end")
				}
			})
		})
	}
}

func TestFlagsOfTheRequestReachTheSteps(t *testing.T) {
	z := newZoo(t)
	z.add("a", 0, one, y, plus(1))
	e := z.ensemble(pipeline(0, one, y, stepOf("a", names{"x": "x"}, names{"y": "y"})))
	req := request(1)
	req.Priority, req.Timeout, req.Parameters = 3, time.Hour, map[string]any{"k": "v"}
	req.Sequence, req.Background = edgewise.Sequence{ID: 9, Start: true}, true
	r := ask(t, e, req)
	got := z.asked["a"][0]
	if got.ID != "id" || got.Priority != 3 || got.Timeout != time.Hour || got.Parameters["k"] != "v" || got.Sequence != req.Sequence ||
		!got.Background {
		t.Errorf("the step got %+v", got)
	}
	if got.Model != (edgewise.ModelID{Name: "a", Version: 1}) {
		t.Errorf("the step asked %v", got.Model)
	}
	if fmt.Sprint(r.Parameters) != "map[sequence_end:false sequence_id:9 sequence_start:true]" {
		t.Errorf("parameters %v", r.Parameters)
	}
}

func TestMemoryIsGivenBackWhenTheLastStepHasReadIt(t *testing.T) {
	z := newZoo(t)
	var heldByLast int64
	z.add("a", 0, one, y, plus(1))
	z.add("last", 0, one, y, func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		heldByLast = z.held.Load()
		return plus(1)(ctx, req)
	})
	var steps []edgewise.EnsembleStep
	from := "x"
	for i := range 5 {
		to := fmt.Sprint("t", i)
		steps = append(steps, stepOf("a", names{"x": from}, names{"y": to}))
		from = to
	}
	steps = append(steps, stepOf("last", names{"x": from}, names{"y": "y"}))
	e := z.ensemble(pipeline(0, one, []string{"y:FP32[-1]", "t0:FP32[-1]"}, steps...))
	r := ask(t, e, request(0))
	if heldByLast != 2 { // the one it reads, and t0, which is an output
		t.Errorf("%d responses were held while the last step ran, want 2", heldByLast)
	}
	if z.held.Load() != 2 || answerOf(t, r, "y")[0] != 6 || answerOf(t, r, "t0")[0] != 1 {
		t.Errorf("%d responses are held; y %v", z.held.Load(), answerOf(t, r, "y"))
	}
	r.Release()
	r.Release()
	if z.held.Load() != 0 {
		t.Errorf("%d responses are held after the release", z.held.Load())
	}
}

func TestTensorsBetweenStepsAreShared(t *testing.T) {
	z := newZoo(t)
	var seen []*byte
	z.add("a", 0, one, y, plus(1))
	z.add("look", 0, one, y, func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		z.mu.Lock()
		seen = append(seen, &req.Inputs[0].Data[0])
		z.mu.Unlock()
		return plus(0)(ctx, req)
	})
	e := z.ensemble(pipeline(0, one, []string{"m:FP32[-1]", "p:FP32[-1]", "q:FP32[-1]"}, stepOf("a", names{"x": "x"}, names{"y": "m"}),
		stepOf("look", names{"x": "m"}, names{"y": "p"}), stepOf("look", names{"x": "m"}, names{"y": "q"})))
	r := ask(t, e, request(1))
	if len(seen) != 2 || seen[0] != seen[1] || seen[0] != &r.Outputs[0].Data[0] {
		t.Error("a tensor was copied on its way")
	}
}

func TestOptionalInputsMayStayUnset(t *testing.T) {
	z := newZoo(t)
	z.add("a", 0, []string{"x:FP32[-1]", "z?:FP32[-1]"}, y, plus(0))
	e := z.ensemble(pipeline(0, []string{"x:FP32[-1]", "k?:FP32[-1]"}, y, stepOf("a", names{"x": "x", "z": "k"}, names{"y": "y"})))
	if got := answerOf(t, ask(t, e, request(1)), "y"); got[0] != 1 {
		t.Errorf("without the optional input: %v", got)
	}
	req := request(1)
	req.Inputs = append(req.Inputs, floats("k", []float32{5}))
	if got := answerOf(t, ask(t, e, req), "y"); got[0] != 6 {
		t.Errorf("with the optional input: %v", got)
	}
}

func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZoo(t)
		z.add("fast", 0, one, y, plus(1))
		z.add("slow", 0, one, y, after(time.Second, plus(1)))
		m := pipeline(0, one, y, stepOf("fast", names{"x": "x"}, names{"y": "m"}), stepOf("slow", names{"x": "m"}, names{"y": "y"}))
		m.EnsembleScheduling.MaxInflightRequests = 2
		e := z.ensemble(m)
		var failed []error
		results := make(chan error)
		start := time.Now()
		for range 68 {
			go func() {
				r, err := e.Infer(t.Context(), request(1))
				r.Release()
				results <- err
			}()
		}
		for range 68 {
			if err := <-results; err != nil {
				failed = append(failed, err)
			}
		}
		if took := time.Since(start); took != 33*time.Second || z.most("slow") != 2 {
			t.Errorf("66 requests by two took %v, %d at a time", took, z.most("slow"))
		}
		if len(failed) != 2 || edgewise.KindOf(failed[0]) != edgewise.Busy ||
			failed[0].Error() != "in ensemble 'E', max_inflight_requests is reached and 64 requests wait already" {
			t.Errorf("refused: %v", failed)
		}
		if s := e.Statistics(); s.Steps[1].Wait.Count != 64 || s.Success.Count != 66 {
			t.Errorf("%+v", s)
		}
		// A request that gives up while it waits leaves the others their turn.
		go func() {
			r, err := e.Infer(t.Context(), request(1))
			r.Release()
			results <- err
		}()
		go func() {
			r, err := e.Infer(t.Context(), request(1))
			r.Release()
			results <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := e.Infer(ctx, request(1)); err == nil || edgewise.KindOf(err) != edgewise.Deadline {
			t.Errorf("waiting beyond the deadline: %v", err)
		}
		if err := errors.Join(<-results, <-results); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWaitsAndThenRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, m := diamond(t)
		e := z.ensemble(m)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := e.Infer(t.Context(), request(1))
			r.Release()
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
		default:
			synctest.Wait()
		}
		if s := e.Statistics(); s.Success.Count != 1 || s.InferenceCount != 1 || s.ExecutionCount != 1 ||
			s.ComputeInfer.Total != 4 || s.Steps[0].Success.Count != 1 {
			t.Errorf("statistics %+v", s)
		}
		if _, err := e.Infer(t.Context(), request(1)); err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestAModelThatAnswersWithoutAnOutput(t *testing.T) {
	z := newZoo(t)
	z.add("a", 0, one, y, func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) { return nil, nil })
	e := z.ensemble(pipeline(0, one, y, stepOf("a", names{"x": "x"}, names{"y": "y"})))
	_, err := e.Infer(t.Context(), request(1))
	if err == nil || err.Error() != "in ensemble 'E', step 0 (model 'a') answered without its output 'y'" {
		t.Errorf("got %v", err)
	}
}

// TestAStepThatWaitsForTheEnsembleIsNotAsked asks an ensemble on behalf of a step that stands in it: it could wait for
// its own instance loop.
func TestAStepThatWaitsForTheEnsembleIsNotAsked(t *testing.T) {
	z, m := diamond(t)
	e := z.ensemble(m)
	req := request(1)
	req.Callers = []string{"left"}
	_, err := e.Infer(t.Context(), req)
	const want = "in ensemble 'E', step 1 (model 'left') waits for this answer already: steps cannot call each other in a circle"
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Guest {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if n := z.requests("left"); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}
