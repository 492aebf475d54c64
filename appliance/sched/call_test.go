package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// talker is an Answerer that does with each call what a test says.
type talker struct {
	doubler
	batches chan int // sizes of the batches that it was given; nil: nobody counts
	talk    func(c *edgewise.Call)
	apart   bool // calls are answered in goroutines of their own, after Answer has returned
	fail    error
	work    sync.WaitGroup
}

func (k *talker) Answer(_ context.Context, calls []*edgewise.Call) error {
	if k.batches != nil {
		k.batches <- len(calls)
	}
	for _, c := range calls {
		if k.apart {
			k.work.Go(func() { k.talk(c) })
			continue
		}
		k.talk(c)
	}
	return k.fail
}

// value makes a result of one row.
func (k *talker) value(v float32) *edgewise.Result {
	k.inUse.Add(1)
	return &edgewise.Result{
		Outputs: []edgewise.Tensor{
			{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2}, Data: floats(v, v)},
		},
		Free: func() { k.inUse.Add(-1) },
	}
}

// count answers a call with n responses and an end.
func (k *talker) count(n int) func(*edgewise.Call) {
	return func(c *edgewise.Call) {
		for i := range n {
			if err := c.Answer(k.value(float32(i)), false, nil); err != nil {
				break
			}
		}
		_ = c.Answer(nil, true, nil)
	}
}

func decoupledModel() *edgewise.Model {
	m := model()
	m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	return m
}

// listen sends a request and returns the values of the responses, that of the last one included if it has one.
func listen(ctx context.Context, s *Scheduler) (values [][]byte, last *edgewise.Response, err error) {
	req := request(1, 2)
	req.Each = func(r *edgewise.Response) error {
		defer r.Release()
		if r.Fault != nil {
			values = append(values, []byte(r.Fault.Error()))
			return nil
		}
		values = append(values, slices.Clone(r.Outputs[0].Data))
		return nil
	}
	last, err = s.Infer(ctx, req)
	if last != nil && !last.Empty {
		values = append(values, slices.Clone(last.Outputs[0].Data))
	}
	last.Release()
	return values, last, err
}

// closed closes a scheduler and its talker, and says so where results are left.
func closed(t *testing.T, s *Scheduler, k *talker) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	k.work.Wait()
	if n := s.answerer.open.Load(); n != 0 {
		t.Errorf("%d calls are open after Close", n)
	}
}

func TestADecoupledModelAnswersInOrder(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart %v", apart), func(t *testing.T) {
			k := &talker{apart: apart}
			k.talk = k.count(1000)
			s := schedulerOf(k, decoupledModel(), Config{Instances: 2, MaxQueue: 100})
			defer closed(t, s, k)
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					values, last, err := listen(t.Context(), s)
					if err != nil || !last.Empty || last.ID != "r" || last.Model.Version != 3 || len(values) != 1000 {
						t.Errorf("%d responses, last %+v: %v", len(values), last, err)
						return
					}
					for i, v := range values {
						if want := floats(float32(i), float32(i)); string(v) != string(want) {
							t.Fatalf("response %d is %v", i, v)
						}
					}
				})
			}
			clients.Wait()
			st := s.Statistics()
			if st.Success.Count != 8 || st.InferenceCount != 8 || st.Fail.Count != 0 {
				t.Errorf("%d successes, %d failures, %d executions", st.Success.Count, st.Fail.Count, st.ExecutionCount)
			}
			last := len(st.Responses) - 1
			if n := len(st.Responses); n != 128 || st.Responses[0].Success.Count != 8 ||
				st.Responses[last].Success.Count != 8*uint64(1000-last) || st.Responses[last].Empty.Count != 8 {
				t.Errorf("%d places, the first %+v", n, st.Responses[0])
			}
		})
	}
}

// TestAnAnswerHasItsTrueShape delivers what contradicts the model's own dims, as Triton does.
func TestAnAnswerHasItsTrueShape(t *testing.T) {
	m := model()
	m.Output[0].Dims = edgewise.Shape{3}
	k := &talker{}
	k.talk = func(c *edgewise.Call) { _ = c.Answer(k.value(7), true, nil) }
	s := schedulerOf(k, m, Config{Instances: 1, MaxQueue: 1})
	defer closed(t, s, k)
	resp, err := s.Infer(t.Context(), request(1, 2))
	if err != nil || !resp.Outputs[0].Shape.Equal(edgewise.Shape{1, 2}) {
		t.Errorf("%+v: %v", resp, err)
	}
	resp.Release()
}

// TestACallerThatAsksForNoMoreReadsWhatComes has a model that ends when it is told, and one that does not.
func TestACallerThatAsksForNoMoreReadsWhatComes(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := &talker{apart: true}
			k.talk = func(c *edgewise.Call) {
				for range 20 {
					time.Sleep(time.Second)
					if !ignores && c.Context.Err() != nil {
						_ = c.Answer(nil, true, edgewise.Errorf("test", edgewise.Canceled, "as asked"))
						return
					}
					if err := c.Answer(k.value(1), false, nil); err != nil {
						t.Errorf("a response is refused: %v", err)
					}
				}
				_ = c.Answer(nil, true, nil)
			}
			s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
			defer closed(t, s, k)
			req, n := request(1, 2), 0
			stop, cancel := context.WithCancel(t.Context())
			defer cancel()
			req.Stop, req.Each = stop, func(r *edgewise.Response) error {
				if n++; n == 5 {
					cancel()
				}
				r.Release()
				return nil
			}
			last, err := s.Infer(t.Context(), req)
			switch {
			case ignores && (err != nil || n != 20 || !last.Empty):
				t.Errorf("%d responses of a model that goes on: %v", n, err)
			case !ignores && (edgewise.KindOf(err) != edgewise.Canceled || n != 5):
				t.Errorf("%d responses of a model that ends: %v", n, err)
			}
		})
	}
}

func TestALastResponseMayHaveOutputs(t *testing.T) {
	k := &talker{}
	k.talk = func(c *edgewise.Call) {
		r := k.value(1)
		r.Parameters = map[string]any{"n": int64(7)}
		_ = c.Answer(k.value(0), false, nil)
		_ = c.Answer(r, true, nil)
	}
	s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
	defer closed(t, s, k)
	values, last, err := listen(t.Context(), s)
	if err != nil || len(values) != 2 || last.Empty || last.Parameters["n"] != int64(7) || last.Timing.Batch != 1 {
		t.Errorf("%d responses, last %+v: %v", len(values), last, err)
	}
}

func TestOneResponseIsTakenFromAModelThatIsNotDecoupled(t *testing.T) {
	tests := []struct {
		name string
		talk func(k *talker, c *edgewise.Call)
		want string // of the error
	}{
		{"a last answer", func(k *talker, c *edgewise.Call) { _ = c.Answer(k.value(1), true, nil) }, ""},
		{"an answer and its end", func(k *talker, c *edgewise.Call) {
			_ = c.Answer(k.value(1), false, nil)
			_ = c.Answer(nil, true, nil)
		}, ""},
		{"two answers", func(k *talker, c *edgewise.Call) {
			_ = c.Answer(k.value(1), false, nil)
			_ = c.Answer(k.value(1), true, nil)
		}, `model "double" version 3: its backend sent more than one response, and is not decoupled`},
		{
			"none", func(_ *talker, c *edgewise.Call) { _ = c.Answer(nil, true, nil) },
			`model "double" version 3: its backend sent no response`,
		},
		{"an error", func(_ *talker, c *edgewise.Call) { _ = c.Answer(nil, true, errors.New("no")) }, "no"},
		{"an answer after the end", func(k *talker, c *edgewise.Call) {
			_ = c.Answer(k.value(1), true, nil)
			if err := c.Answer(k.value(2), true, nil); err == nil {
				panic("accepted")
			}
		}, ""},
		{"an output of another type", func(k *talker, c *edgewise.Call) {
			r := k.value(1)
			r.Outputs[0].Type = edgewise.Int8
			_ = c.Answer(r, true, nil)
		}, `model "double": the backend made output "y" of type INT8, which the model does not declare`},
		{
			"a panic", func(*talker, *edgewise.Call) { panic("broken") },
			`model "double" version 3: its instance panicked: broken`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k := &talker{}
			k.talk = func(c *edgewise.Call) { test.talk(k, c) }
			s := schedulerOf(k, model(), Config{Instances: 1, MaxQueue: 1})
			defer closed(t, s, k)
			r, err := s.Infer(t.Context(), request(1, 2))
			defer r.Release()
			if text := fmt.Sprint(err); err != nil && text != test.want || err == nil && test.want != "" {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestACallThatHasNoLastAnswerFailsWithTheBatch(t *testing.T) {
	k := &talker{fail: edgewise.Errorf("x", edgewise.Unavailable, "the process has ended")}
	k.talk = func(c *edgewise.Call) { _ = c.Answer(k.value(0), false, nil) }
	s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
	defer closed(t, s, k)
	values, _, err := listen(t.Context(), s)
	if len(values) != 1 || err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("%d responses: %v", len(values), err)
	}
	if st := s.Statistics(); st.Fail.Count != 1 || st.ExecutionCount != 0 || st.Responses[1].Fail.Count != 1 {
		t.Errorf("statistics %+v", st)
	}
}

func TestAFaultyResponseDoesNotEndARequest(t *testing.T) {
	k := &talker{}
	k.talk = func(c *edgewise.Call) {
		_ = c.Answer(nil, false, errors.New("this one is missing"))
		_ = c.Answer(k.value(1), true, nil)
	}
	s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
	defer closed(t, s, k)
	values, _, err := listen(t.Context(), s)
	if err != nil || len(values) != 2 || string(values[0]) != "this one is missing" {
		t.Errorf("%q: %v", values, err)
	}
}

func TestADecoupledModelRefusesARequestForOneResponse(t *testing.T) {
	k := &talker{}
	s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
	defer closed(t, s, k)
	if _, err := s.Infer(t.Context(), request(1, 2)); err == nil || edgewise.KindOf(err) != edgewise.Unsupported {
		t.Error(err)
	}
}

func TestCallsOfABatchAreAnsweredByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model()
		m.DynamicBatching = &edgewise.DynamicBatching{PreferredBatchSize: []int32{4}, MaxQueueDelay: 1000}
		k := &talker{batches: make(chan int, 8)}
		k.talk = func(c *edgewise.Call) {
			if c.Request.ID == "bad" {
				_ = c.Answer(nil, true, errors.New("bad"))
				return
			}
			v, _ := c.Request.Parameters["v"].(int64)
			_ = c.Answer(k.value(float32(v)), true, nil)
		}
		s := schedulerOf(k, m, Config{Instances: 1, MaxQueue: 8})
		defer closed(t, s, k)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				req := request(1, 2)
				req.Parameters = map[string]any{"v": int64(i)}
				if i == 2 {
					req.ID = "bad"
				}
				r, err := s.Infer(t.Context(), req)
				defer r.Release()
				if (err != nil) != (i == 2) || err == nil && string(r.Outputs[0].Data) != string(floats(float32(i), float32(i))) {
					t.Errorf("request %d: %v, %v", i, r, err)
				}
			})
		}
		clients.Wait()
		if n := <-k.batches; n != 4 || len(k.batches) != 0 {
			t.Errorf("the first batch has %d calls, and %d more came", n, len(k.batches))
		}
		if st := s.Statistics(); st.InferenceCount != 4 || st.ExecutionCount != 1 || st.Success.Count != 3 || st.Fail.Count != 1 {
			t.Errorf("statistics %+v", st)
		}
	})
}

func TestAModelWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, made := &talker{apart: true}, atomic.Int32{}
		k.talk = func(c *edgewise.Call) {
			for range 100 {
				made.Add(1)
				if c.Answer(k.value(1), false, nil) != nil {
					break
				}
			}
			_ = c.Answer(nil, true, nil)
		}
		s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
		defer closed(t, s, k)
		read, req := make(chan struct{}), request(1, 2)
		req.Each = func(r *edgewise.Response) error {
			<-read
			r.Release()
			return nil
		}
		done := make(chan *edgewise.Response, 1)
		go func() {
			last, err := s.Infer(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			done <- last
		}()
		synctest.Wait()
		if made.Load() != 1 || k.inUse.Load() != 1 {
			t.Errorf("%d responses made, %d in memory, while nobody reads", made.Load(), k.inUse.Load())
		}
		time.Sleep(time.Second) // virtual: the reader's time is not the model's
		close(read)
		if last := <-done; last.Timing.Infer != 0 || last.Timing.First != 0 {
			t.Errorf("timing %+v", last.Timing)
		}
	})
}

func TestACallEndsWithItsClient(t *testing.T) {
	broken := errors.New("the reader is broken")
	tests := []struct {
		name  string
		leave func(cancel context.CancelFunc) error // what the reader does with the second response
		want  error
	}{
		{"its context ends", func(cancel context.CancelFunc) error { cancel(); return nil }, context.Canceled},
		{"its reader fails", func(context.CancelFunc) error { return broken }, broken},
		{"its reader panics", func(context.CancelFunc) error { panic("reader") }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k, ended := &talker{apart: true}, make(chan int, 1)
			k.talk = func(c *edgewise.Call) {
				n := 0
				for c.Answer(k.value(1), false, nil) == nil {
					n++
				}
				<-c.Context.Done()
				_ = c.Answer(nil, true, nil)
				ended <- n
			}
			s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
			defer closed(t, s, k)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, n := request(1, 2), 0
			req.Each = func(r *edgewise.Response) error {
				r.Release()
				if n++; n == 2 {
					return test.leave(cancel)
				}
				return nil
			}
			_, err := s.Infer(ctx, req)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if got := <-ended; got > 2 {
				t.Errorf("%d answers after the client had left", got-1)
			}
		})
	}
}

func TestOpenCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, end := &talker{apart: true}, make(chan struct{})
		k.talk = func(c *edgewise.Call) {
			<-end
			_ = c.Answer(nil, true, nil)
		}
		s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: MaxOpenCalls})
		var clients sync.WaitGroup
		for range MaxOpenCalls {
			clients.Go(func() {
				if _, _, err := listen(t.Context(), s); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, _, err := listen(t.Context(), s); err == nil || edgewise.KindOf(err) != edgewise.Busy {
			t.Errorf("one more: %v", err)
		}
		close(end)
		clients.Wait()
		closed(t, s, k)
	})
}

func TestVerifyReadsAStream(t *testing.T) {
	k := &talker{}
	k.talk = k.count(5)
	s := schedulerOf(k, decoupledModel(), Config{Instances: 1, MaxQueue: 1})
	defer closed(t, s, k)
	if err := s.Warm(t.Context(), []*edgewise.Request{request(1, 2)}); err != nil {
		t.Error(err)
	}
	if st := s.Statistics(); st.Success.Count != 0 || len(st.Responses) != 0 {
		t.Errorf("the warm-up is counted: %+v", st)
	}
}
