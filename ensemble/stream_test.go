package ensemble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// repeat answers x with x[0] responses, the numbers from 0; the last one says that it is if final is true.
func repeat(final bool) speaker {
	return func(ctx context.Context, req *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
		n := int(values(req.Inputs[0])[0])
		for i := range n {
			out := []edgewise.Tensor{floats("y", []float32{float32(i)})}
			if final && i == n-1 {
				return out, nil
			}
			if err := emit(out, nil); err != nil {
				return nil, err
			}
		}
		return nil, ctx.Err()
	}
}

// hear sends a request and returns the first number of output y of each response.
func hear(ctx context.Context, e *Ensemble, req *edgewise.Request) (heard []float32, last *edgewise.Response, err error) {
	req.Each = func(r *edgewise.Response) error {
		defer r.Release()
		heard = append(heard, values(r.Outputs[0])[0])
		return nil
	}
	last, err = e.Infer(ctx, req)
	if last != nil && !last.Empty {
		heard = append(heard, values(last.Outputs[0])[0])
	}
	last.Release()
	return heard, last, err
}

// spoken is an ensemble x -> before -> talk -> after -> y, where before adds 1 and after multiplies by ten.
func spoken(t testing.TB, z *zoo, speak speaker, behave behaviour) *Ensemble {
	z.add("before", 0, one, y, plus(1))
	z.stream("talk", one, y, speak)
	z.add("after", 0, one, y, behave)
	return z.ensemble(pipeline(0, one, y, stepOf("before", names{"x": "x"}, names{"y": "a"}),
		stepOf("talk", names{"x": "a"}, names{"y": "b"}), stepOf("after", names{"x": "b"}, names{"y": "y"})))
}

// tenfold takes a random time, so that passes end in another order than they began in.
func tenfold(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
	time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	v := slices.Clone(values(req.Inputs[0]))
	for i := range v {
		v[i] *= 10
	}
	return []edgewise.Tensor{floats("y", v)}, ctx.Err()
}

func TestEachResponseOfADecoupledStepGoesOnInOrder(t *testing.T) {
	for _, final := range []bool{false, true} {
		for _, n := range []int{0, 1, 2, 1000} {
			t.Run(fmt.Sprintf("%d responses, final %v", n, final), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					z := newZoo(t)
					e := spoken(t, z, repeat(final), tenfold)
					heard, last, err := hear(t.Context(), e, request(float32(n)))
					if err != nil || last.Empty != !final || last.ID != "id" || last.Model.Version != 7 {
						t.Fatalf("last %+v: %v", last, err)
					}
					if len(heard) != n+1 {
						t.Fatalf("%d responses to a request for %d", len(heard), n+1)
					}
					for i, v := range heard {
						if v != float32(10*i) {
							t.Fatalf("response %d is %v", i, v)
						}
					}
					if z.requests("before") != 1 || z.requests("talk") != 1 || z.requests("after") != n+1 {
						t.Errorf("asked %d, %d and %d times", z.requests("before"), z.requests("talk"), z.requests("after"))
					}
					if most := z.most("after"); most > maxPasses+1 || n > maxPasses && most < 2 {
						t.Errorf("%d passes at a time", most)
					}
					st := e.Statistics()
					if st.Success.Count != 1 || st.Fail.Count != 0 || st.Responses[0].Success.Count != 1 {
						t.Errorf("counted %d successes, %d failures, %+v", st.Success.Count, st.Fail.Count, st.Responses[0])
					}
				})
			})
		}
	}
}

// TestDecoupledStepsInARowMultiply has three of them, and one that reads what was there before all of them.
func TestDecoupledStepsInARowMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZoo(t)
		z.stream("talk", one, y, repeat(false))
		z.stream("last", one, y, repeat(true))
		z.add("join", 0, []string{"x:FP32[-1]", "z:FP32[-1]", "w:FP32[-1]"}, y, plus(0.5))
		e := z.ensemble(pipeline(0, one, []string{"y:FP32[-1]", "a:FP32[-1]"},
			stepOf("join", names{"x": "c", "z": "x", "w": "a"}, names{"y": "y"}),
			stepOf("talk", names{"x": "x"}, names{"y": "a"}),
			stepOf("last", names{"x": "a"}, names{"y": "b"}),
			stepOf("talk", names{"x": "b"}, names{"y": "c"})))
		var want []float32
		const n = 6
		for a := range n {
			for b := range a {
				for c := range b {
					want = append(want, float32(c)+n+float32(a)+0.5)
				}
			}
		}
		heard, last, err := hear(t.Context(), e, request(n))
		if err != nil || !last.Empty || !slices.Equal(heard, want) {
			t.Errorf("heard %v, last %+v: %v\nwant %v", heard, last, err, want)
		}
		if z.requests("talk")+z.requests("last") != 1+n+n*(n-1)/2 {
			t.Errorf("asked %d and %d times", z.requests("talk"), z.requests("last"))
		}
	})
}

func TestTensorsBeforeADecoupledStepAreThereInEachPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZoo(t)
		z.add("slow", 0, one, y, after(time.Second, plus(100)))
		z.stream("talk", one, y, repeat(true))
		z.add("join", 0, two, y, plus(0))
		e := z.ensemble(pipeline(0, one, []string{"y:FP32[-1]", "s:FP32[-1]"},
			stepOf("talk", names{"x": "x"}, names{"y": "b"}), stepOf("slow", names{"x": "x"}, names{"y": "s"}),
			stepOf("join", names{"x": "b", "z": "s"}, names{"y": "y"})))
		var kept []*edgewise.Response // read after all have come
		req := request(3)
		req.Each = func(r *edgewise.Response) error {
			kept = append(kept, r)
			return nil
		}
		last, err := e.Infer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range append(kept, last) {
			if answerOf(t, r, "y")[0] != float32(i)+103 || answerOf(t, r, "s")[0] != 103 {
				t.Errorf("response %d: %v", i, r.Outputs)
			}
			r.Release()
		}
		if z.requests("slow") != 1 {
			t.Errorf("the step before ran %d times", z.requests("slow"))
		}
		req = request(3)
		req.Outputs = []string{"s"}
		heard, last, err := hear(t.Context(), e, req)
		if err != nil || last.Empty || !slices.Equal(heard, []float32{103}) || z.requests("talk") != 1 {
			t.Errorf("an output from before the decoupled step: %v, %+v, %v", heard, last, err)
		}
	})
}

// TestASlowReaderMakesTheDecoupledStepWait reads nothing for an hour, and counts what is held meanwhile.
func TestASlowReaderMakesTheDecoupledStepWait(t *testing.T) {
	for _, inflight := range []uint32{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			z := newZoo(t)
			var emitted atomic.Int64
			z.stream("talk", one, y, func(ctx context.Context, req *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
				for i := range 100 {
					if err := emit([]edgewise.Tensor{floats("y", []float32{float32(i)})}, nil); err != nil {
						return nil, err
					}
					emitted.Add(1)
				}
				return nil, nil
			})
			z.add("after", 0, one, y, plus(0))
			m := pipeline(0, one, y, stepOf("talk", names{"x": "x"}, names{"y": "b"}), stepOf("after", names{"x": "b"}, names{"y": "y"}))
			m.EnsembleScheduling.MaxInflightRequests = inflight
			e := z.ensemble(m)
			most := int64(maxPasses)
			if inflight > 0 {
				most = int64(inflight)
			}
			read := make(chan struct{})
			req := request(0)
			n := 0
			req.Each = func(r *edgewise.Response) error {
				defer r.Release()
				<-read
				n++
				return nil
			}
			ended := make(chan error)
			go func() {
				last, err := e.Infer(t.Context(), req)
				last.Release()
				ended <- err
			}()
			time.Sleep(time.Hour)
			synctest.Wait()
			if emitted.Load() != most || z.held.Load() > 2*most+2 {
				t.Errorf("%d responses made and %d held while the client reads none, want %d", emitted.Load(), z.held.Load(), most)
			}
			close(read)
			if err := <-ended; err != nil || n != 100 {
				t.Errorf("%d responses: %v", n, err)
			}
		})
	}
}

func TestADecoupledStepEndsWithItsRequest(t *testing.T) {
	broken := errors.New("broken")
	// endless goes on until nobody reads any more.
	endless := func(ctx context.Context, _ *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
		for i := 0; ; i++ {
			if err := emit([]edgewise.Tensor{floats("y", []float32{float32(i)})}, nil); err != nil {
				return nil, err
			}
		}
	}
	fault := func(ctx context.Context, req *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
		if err := emit([]edgewise.Tensor{floats("y", []float32{0})}, nil); err != nil {
			return nil, err
		}
		err := req.Each(&edgewise.Response{Fault: broken})
		if err == nil {
			t.Error("a response that could not be made does not end the request")
		}
		return nil, err
	}
	late := func(ctx context.Context, _ *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
		if err := emit([]edgewise.Tensor{floats("y", []float32{0})}, nil); err != nil {
			return nil, err
		}
		time.Sleep(time.Minute)
		return nil, broken
	}
	failing := func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		if values(req.Inputs[0])[0] == 5 {
			return nil, broken
		}
		return tenfold(ctx, req)
	}
	for _, test := range []struct {
		name   string
		speak  speaker
		behave behaviour
		read   func(i int, cancel context.CancelFunc) error
		want   error
		most   int // responses
	}{
		{"a pass fails", endless, failing, nil, broken, 5},
		{"a response is a fault", fault, tenfold, nil, broken, 1},
		{"the decoupled step fails", late, tenfold, nil, broken, 1},
		{"the client goes", endless, tenfold, func(i int, cancel context.CancelFunc) error {
			if i == 3 {
				cancel()
			}
			return nil
		}, context.Canceled, 4 + maxPasses},
		{"the reader fails", endless, tenfold, func(i int, _ context.CancelFunc) error {
			if i == 3 {
				return broken
			}
			return nil
		}, broken, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := newZoo(t)
				e := spoken(t, z, test.speak, test.behave)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n := 0
				req := request(1)
				req.Each = func(r *edgewise.Response) error {
					defer r.Release()
					if v := values(r.Outputs[0])[0]; v != float32(10*n) {
						t.Errorf("response %d is %v", n, v)
					}
					n++
					if test.read == nil {
						return nil
					}
					return test.read(n-1, cancel)
				}
				last, err := e.Infer(ctx, req)
				if last != nil || !errors.Is(err, test.want) || n > test.most {
					t.Errorf("%d responses, the last %+v: %v", n, last, err)
				}
				if st := e.Statistics(); st.Fail.Count != 1 || st.Success.Count != 0 {
					t.Errorf("counted %d failures", st.Fail.Count)
				}
			})
		})
	}
}

func TestARequestForOneResponseOfADecoupledEnsembleIsRefused(t *testing.T) {
	z := newZoo(t)
	e := spoken(t, z, repeat(true), tenfold)
	if _, err := e.Infer(t.Context(), request(1)); edgewise.KindOf(err) != edgewise.Unsupported || z.requests("before") != 0 {
		t.Errorf("got %v", err)
	}
}

// TestConditionsInPasses filters responses behind a decoupled step, and keeps one from running.
func TestConditionsInPasses(t *testing.T) {
	when := func(s edgewise.EnsembleStep, c edgewise.EnsembleCondition) edgewise.EnsembleStep {
		s.Condition = &c
		return s
	}
	above := func(v float64, otherwise string) edgewise.EnsembleCondition {
		c := edgewise.EnsembleCondition{Tensor: "x", Operator: "GREATER", Value: v, Over: "ANY", Otherwise: otherwise}
		if otherwise == skip {
			c.DefaultOutput = map[string]edgewise.EnsembleDefault{"y": {Tensor: "x"}}
		}
		return c
	}
	odd := above(0, stop)
	odd.Tensor, odd.Operator, odd.Value = "b", "LESS", 2
	for _, test := range []struct {
		name        string
		talk, after edgewise.EnsembleStep
		n           float32
		want        []float32
		empty       bool
	}{
		{
			"responses that are stopped", stepOf("talk", names{"x": "x"}, names{"y": "b"}),
			when(stepOf("after", names{"x": "b"}, names{"y": "y"}), odd), 4,
			[]float32{0, 1},
			true,
		},
		{
			"a decoupled step that is skipped", when(stepOf("talk", names{"x": "x"}, names{"y": "b"}), above(4, skip)),
			stepOf("after", names{"x": "b"}, names{"y": "y"}), 4,
			[]float32{4},
			false,
		},
		{
			"a decoupled step that is stopped", when(stepOf("talk", names{"x": "x"}, names{"y": "b"}), above(4, stop)),
			stepOf("after", names{"x": "b"}, names{"y": "y"}), 4, nil, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := newZoo(t)
			z.stream("talk", one, y, repeat(true))
			z.add("after", 0, one, y, plus(0))
			e := z.ensemble(pipeline(0, one, y, test.talk, test.after))
			heard, last, err := hear(t.Context(), e, request(test.n))
			if err != nil || !slices.Equal(heard, test.want) || last.Empty != test.empty {
				t.Errorf("heard %v, last %+v: %v", heard, last, err)
			}
		})
	}
}

func TestAResponseMayLackOutputs(t *testing.T) {
	z := newZoo(t)
	both := []string{"y:FP32[-1]", "w:FP32[-1]"}
	z.stream("talk", one, both, func(_ context.Context, _ *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
		y, w := floats("y", []float32{1}), floats("w", []float32{2})
		return []edgewise.Tensor{y, w}, errors.Join(emit([]edgewise.Tensor{y}, nil), emit([]edgewise.Tensor{w}, nil))
	})
	z.add("after", 0, one, y, plus(0))
	e := z.ensemble(pipeline(0, one, both, stepOf("talk", names{"x": "x"}, names{"y": "b", "w": "w"}),
		stepOf("after", names{"x": "b"}, names{"y": "y"})))
	var got []string
	req := request(1)
	collect := func(r *edgewise.Response) error {
		defer r.Release()
		text := ""
		for _, out := range r.Outputs {
			text += out.Name
		}
		got = append(got, text)
		return nil
	}
	req.Each = collect
	last, err := e.Infer(t.Context(), req)
	if err == nil {
		err = collect(last)
	}
	if err != nil || !slices.Equal(got, []string{"y", "w", "yw"}) {
		t.Errorf("responses with %q: %v", got, err)
	}
}

// TestTheParametersOfAResponseDirectTheSequenceBehindIt begins and ends a sequence, as in Triton.
func TestTheParametersOfAResponseDirectTheSequenceBehindIt(t *testing.T) {
	z := newZoo(t)
	z.stream("talk", one, y, func(_ context.Context, _ *edgewise.Request, emit emitter) ([]edgewise.Tensor, error) {
		v := []edgewise.Tensor{floats("y", []float32{1})}
		return nil, errors.Join(
			emit(v, nil),
			emit(v, map[string]any{"sequence_id": int64(9), "sequence_start": true, "sequence_end": false}),
			emit(v, map[string]any{"sequence_id": "nine", "sequence_end": true}),
			emit(v, map[string]any{"sequence_start": false}),
		)
	})
	z.add("after", 0, one, y, plus(0))
	e := z.ensemble(pipeline(0, one, y, stepOf("talk", names{"x": "x"}, names{"y": "b"}), stepOf("after", names{"x": "b"}, names{"y": "y"})))
	req := request(1)
	own := edgewise.Sequence{ID: 4, Start: true}
	req.Sequence = own
	if _, _, err := hear(t.Context(), e, req); err != nil {
		t.Fatal(err)
	}
	want := []edgewise.Sequence{own, {ID: 9, Start: true}, {Name: "nine", End: true}, {ID: 4}}
	var got []edgewise.Sequence
	for _, asked := range z.asked["after"] {
		got = append(got, asked.Sequence)
	}
	if !slices.Equal(got, want) {
		t.Errorf("sequences %+v, want %+v", got, want)
	}
	for _, wrong := range []map[string]any{{"sequence_id": true}, {"sequence_start": int64(1)}, {"sequence_end": "x"}} {
		if _, err := redirected(own, wrong); edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}
