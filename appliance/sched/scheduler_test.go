package sched

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestAnswerBelongsToItsRequest(t *testing.T) {
	d := &doubler{}
	s := scheduler(d, model(), Config{Instances: 3, MaxQueue: 1000})
	var clients sync.WaitGroup
	for i := range 200 {
		clients.Go(func() {
			v := float32(i)
			r, err := s.Infer(t.Context(), request(v, v+1))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Release()
			if !bytes.Equal(r.Outputs[0].Data, floats(2*v, 2*v+2)) || r.Model.Version != 3 || r.ID != "r" {
				t.Errorf("request %d was answered with %v", i, r)
			}
		})
	}
	clients.Wait()
	if err := s.Close(); err != nil || !d.closed.Load() {
		t.Errorf("Close: %v, instance closed %v", err, d.closed.Load())
	}
	if st := s.Statistics(); st.Success.Count != 200 || st.InferenceCount != 200 || st.ExecutionCount != 200 ||
		st.Fail.Count != 0 {
		t.Errorf("statistics %+v", st)
	}
}

func TestNoMoreRunsThanInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doubler{gate: make(chan struct{})}
		s := scheduler(d, model(), Config{Instances: 2, MaxQueue: 10})
		var clients sync.WaitGroup
		for range 6 {
			clients.Go(func() {
				r, err := s.Infer(t.Context(), request(1, 2))
				if err != nil {
					t.Error(err)
				}
				r.Release()
			})
		}
		synctest.Wait()
		if got := s.Statistics().Pending; got != 4 || d.most.Load() != 2 {
			t.Errorf("%d pending and %d running, want 4 and 2", got, d.most.Load())
		}
		close(d.gate)
		clients.Wait()
		_ = s.Close()
	})
}

// busy fills both the instance loop and the queue of a scheduler with one instance loop and a queue of n.
func busy(t *testing.T, s *Scheduler, n int) *sync.WaitGroup {
	var clients sync.WaitGroup
	for range n + 1 {
		clients.Go(func() {
			if r, err := s.Infer(context.Background(), request(1, 2)); err == nil {
				r.Release()
			}
		})
		synctest.Wait()
	}
	return &clients
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doubler{gate: make(chan struct{})}
		s := scheduler(d, model(), Config{Instances: 1, MaxQueue: 2})
		clients := busy(t, s, 2)
		_, err := s.Infer(t.Context(), request(1, 2))
		if err == nil || edgewise.KindOf(err) != edgewise.Busy || err.Error() != "Exceeds maximum queue size" {
			t.Errorf("got %v", err)
		}
		close(d.gate)
		clients.Wait()
		_ = s.Close()
		if got := s.Statistics().Failures[edgewise.Busy]; got != 1 {
			t.Errorf("%d rejected, want 1", got)
		}
	})
}

func TestQueuedRequestIsWithdrawn(t *testing.T) {
	tests := []struct {
		name    string
		model   func(*edgewise.Model)
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		timeout time.Duration
		after   time.Duration
		want    edgewise.Kind
	}{
		{"canceled", nil, func(c context.Context) (context.Context, context.CancelFunc) {
			c, cancel := context.WithCancel(c)
			time.AfterFunc(time.Second, cancel)
			return c, cancel
		}, 0, time.Second, edgewise.Canceled},
		{"deadline", nil, func(c context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(c, 3*time.Second)
		}, 0, 3 * time.Second, edgewise.Deadline},
		{
			"own timeout without configuration", nil, context.WithCancel, 20 * time.Millisecond, 20 * time.Millisecond,
			edgewise.Unavailable,
		},
		{"default timeout of the model", queuePolicy(
			edgewise.QueuePolicy{DefaultTimeout: 5000},
		), context.WithCancel, 0, 5 * time.Millisecond, edgewise.Unavailable},
		{"no override allowed", queuePolicy(
			edgewise.QueuePolicy{DefaultTimeout: 5000},
		), context.WithCancel, time.Millisecond, 5 * time.Millisecond, edgewise.Unavailable},
		{"smaller override", queuePolicy(
			edgewise.QueuePolicy{DefaultTimeout: 5000, AllowTimeoutOverride: true},
		), context.WithCancel, time.Millisecond, time.Millisecond, edgewise.Unavailable},
		{"larger override is ignored", queuePolicy(
			edgewise.QueuePolicy{DefaultTimeout: 5000, AllowTimeoutOverride: true},
		), context.WithCancel, time.Second, 5 * time.Millisecond, edgewise.Unavailable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := model()
				if test.model != nil {
					test.model(m)
				}
				d := &doubler{gate: make(chan struct{})}
				s := scheduler(d, m, Config{Instances: 1, MaxQueue: 5})
				first := make(chan struct{})
				go func() {
					defer close(first)
					r, err := s.Infer(context.Background(), request(1, 2))
					if err != nil {
						t.Error(err)
					}
					r.Release()
				}()
				synctest.Wait()
				ctx, cancel := test.ctx(t.Context())
				defer cancel()
				req := request(3, 4)
				req.Timeout = test.timeout
				start := time.Now()
				_, err := s.Infer(ctx, req)
				if err == nil || edgewise.KindOf(err) != test.want || time.Since(start) != test.after {
					t.Errorf("got %v after %v, want %v after %v", err, time.Since(start), test.want, test.after)
				}
				if got := s.Statistics().Pending; got != 0 {
					t.Errorf("%d still queued", got)
				}
				close(d.gate)
				<-first
				_ = s.Close()
			})
		})
	}
}

func queuePolicy(p edgewise.QueuePolicy) func(*edgewise.Model) {
	return func(m *edgewise.Model) { m.DynamicBatching = &edgewise.DynamicBatching{DefaultQueuePolicy: &p} }
}

func TestModelsOwnQueueSizeGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model()
		queuePolicy(edgewise.QueuePolicy{MaxQueueSize: 1})(m)
		d := &doubler{gate: make(chan struct{})}
		s := scheduler(d, m, Config{Instances: 1, MaxQueue: 100})
		clients := busy(t, s, 1)
		if _, err := s.Infer(t.Context(), request(1, 2)); err == nil || edgewise.KindOf(err) != edgewise.Busy {
			t.Errorf("got %v", err)
		}
		close(d.gate)
		clients.Wait()
		_ = s.Close()
	})
}

// TestCanceledWhileRunningReturnsAfterTheRun holds the rule on which zero-copy inputs stand: nobody reads a request's
// bytes after Infer has returned.
func TestCanceledWhileRunningReturnsAfterTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doubler{gate: make(chan struct{})}
		s := scheduler(d, model(), Config{Instances: 1, MaxQueue: 1})
		ctx, cancel := context.WithCancel(t.Context())
		returned := false
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r, err := s.Infer(ctx, request(1, 2)); err == nil {
				r.Release()
			}
			returned = true
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if returned {
			t.Error("Infer returned while its request was running")
		}
		close(d.gate)
		<-done
		_ = s.Close()
	})
}

func TestFailuresCostOnlyTheirOwnRequest(t *testing.T) {
	tests := []struct {
		name     string
		instance *doubler
		kind     edgewise.Kind
	}{
		{"error", &doubler{fail: errors.New("boom")}, edgewise.Internal},
		{"bad input found late", &doubler{
			fail: edgewise.Errorf("x", edgewise.Invalid, "no"),
		}, edgewise.Invalid},
		{"panic", &doubler{panics: true}, edgewise.Internal},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scheduler(test.instance, model(), Config{Instances: 1, MaxQueue: 1})
			_, err := s.Infer(t.Context(), request(1, 2))
			if err == nil || edgewise.KindOf(err) != test.kind {
				t.Errorf("got %v", err)
			}
			test.instance.fail, test.instance.panics = nil, false
			r, err := s.Infer(t.Context(), request(1, 2))
			if err != nil {
				t.Fatalf("the next request fails too: %v", err)
			}
			r.Release()
			if got := s.Statistics().Failures[test.kind]; got != 1 {
				t.Errorf("%d failures of kind %v, want 1", got, test.kind)
			}
			_ = s.Close()
		})
	}
}

func TestCloseWaitsForLentOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doubler{}
		s := scheduler(d, model(), Config{Instances: 1, MaxQueue: 1})
		r, err := s.Infer(t.Context(), request(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		if d.closed.Load() {
			t.Error("the instance was closed under a response")
		}
		r.Release()
		r.Release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := s.Infer(t.Context(), request(1, 2)); err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestWarmupLeavesNoTrace(t *testing.T) {
	s := scheduler(&doubler{}, model(), Config{Instances: 1, MaxQueue: 1})
	if err := s.Warm(t.Context(), []*edgewise.Request{request(1, 2), request(1, 2, 3, 4)}); err != nil {
		t.Fatal(err)
	}
	if st := s.Statistics(); st.Success.Count != 0 || len(st.Batches) != 0 {
		t.Errorf("statistics after warm-up: %+v", st)
	}
	bad := request(1, 2)
	bad.ID, bad.Inputs[0].Name = "w1", "z"
	err := s.Warm(t.Context(), []*edgewise.Request{bad})
	want := `warm-up "w1": unexpected inference input 'z' for model 'double'`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_ = s.Close()
}

func TestBatchSizesAreCounted(t *testing.T) {
	s := scheduler(&doubler{}, model(), Config{Instances: 1, MaxQueue: 1})
	for _, n := range []int{1, 3, 3} {
		r, err := s.Infer(t.Context(), request(make([]float32, 2*n)...))
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	st := s.Statistics()
	var sizes []string
	for _, b := range st.Batches {
		sizes = append(sizes, fmt.Sprintf("%d:%d", b.Size, b.ComputeInfer.Count))
	}
	if got := fmt.Sprint(sizes); got != "[1:1 3:2]" || st.InferenceCount != 7 {
		t.Errorf("batches %v, %d inferences", got, st.InferenceCount)
	}
	_ = s.Close()
}
