package sched

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// stacks is an instance that notes who runs it.
type stacks struct {
	doubler
	led []bool // of each run, whether it was in the goroutine of a request
}

func (s *stacks) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	s.led = append(s.led, strings.Contains(string(debug.Stack()), "(*Scheduler).Infer("))
	return s.doubler.Run(ctx, in, want, options)
}

func TestARequestThatFindsAnInstanceIdleRunsInItsOwnGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &stacks{doubler: doubler{gate: make(chan struct{})}}
		s := schedulerOf(d, model(), Config{Instances: 1, MaxQueue: 2})
		synctest.Wait()
		done := make(chan error)
		send := func() {
			r, err := s.Infer(t.Context(), request(1, 2))
			r.Release()
			done <- err
		}
		for _, want := range [][]bool{{true, false}, {true, false}} { // the second one queues behind the first
			d.led = nil
			go send()
			synctest.Wait()
			go send()
			for range want {
				synctest.Wait()
				d.gate <- struct{}{}
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			if len(d.led) != 2 || !d.led[0] || d.led[1] {
				t.Errorf("runs in the goroutine of a request: %v, want %v", d.led, want)
			}
		}
		_ = s.Close()
	})
}

// endless is an instance whose runs end with their context.
type endless struct{ ended chan error }

func (e *endless) Run(ctx context.Context, _ []edgewise.Tensor, _ []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	<-ctx.Done()
	e.ended <- ctx.Err()
	return nil, ctx.Err()
}

func (e *endless) Close() error { return nil }

// TestTheClientOfTheLeaderMayLeave has the request that completes a batch run it, and lets both clients leave, the
// leader's last.
func TestTheClientOfTheLeaderMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endless{make(chan error, 1)}
		m := model()
		m.DynamicBatching = &edgewise.DynamicBatching{MaxQueueDelay: 1e6, PreferredBatchSize: []int32{2}}
		s := schedulerOf(e, m, Config{Instances: 1, MaxQueue: 2})
		synctest.Wait()
		answered := make(chan error, 2)
		var cancels []context.CancelFunc
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			go func() {
				_, err := s.Infer(ctx, request(1, 2))
				answered <- err
			}()
			synctest.Wait()
		}
		cancels[0]()
		synctest.Wait()
		if len(e.ended) != 0 {
			t.Error("the batch was canceled while the client of its leader was there")
		}
		cancels[1]()
		select {
		case <-e.ended:
		case <-time.After(time.Minute):
			t.Fatal("the batch goes on after all clients have left")
		}
		for range 2 {
			if err := <-answered; edgewise.KindOf(err) != edgewise.Canceled {
				t.Errorf("%v", err)
			}
		}
		_ = s.Close()
	})
}
