package sched

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// patient is a doubler whose runs in the background wait for a token.
type patient struct {
	doubler
	can   bool
	token chan struct{}
	seen  edgewise.RunOptions // of the last run in the background
}

func (p *patient) Background() bool { return p.can }

func (p *patient) Run(ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions) (
	*edgewise.Result, error,
) {
	if options.Background {
		p.seen = options
		select {
		case <-p.token:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return p.doubler.Run(ctx, in, want, options)
}

// behind sends a request in the background, and returns its error when it has an answer.
func behind(ctx context.Context, s *Scheduler) chan error {
	done := make(chan error, 1)
	go func() {
		req := request(1, 2)
		req.Background = true
		r, err := s.Infer(ctx, req)
		if err == nil && r.Outputs[0].Data[7] != floats(4)[3] {
			err = context.Canceled
		}
		r.Release()
		done <- err
	}()
	synctest.Wait()
	return done
}

// TestNobodyWaitsForARequestInTheBackground has one run on the only instance and the only core of the budget.
func TestNobodyWaitsForARequestInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := cores.New(1)
		p := &patient{can: true, token: make(chan struct{})}
		s := schedulerOf(p, model(), Config{Instances: 1, Cores: budget, Threads: 1, SoloThreads: 1, MaxQueue: 1})
		first, second := behind(t.Context(), s), behind(t.Context(), s)
		if budget.Idle() != 1 {
			t.Error("it holds a core")
		}
		ask := func() {
			r, err := s.Infer(t.Context(), request(1, 2))
			if err != nil {
				t.Error(err)
			}
			r.Release()
		}
		for range cores.SoloAfter + 1 {
			ask()
		}
		lease := budget.Open(edgewise.ModelID{}, 1).Lease()
		if !lease.Try() || !lease.Solo() {
			t.Error("because of it a run does not count as a solo run")
		}
		lease.Release()
		before := s.Statistics()
		for _, done := range []chan error{first, second} {
			p.token <- struct{}{}
			if err := <-done; err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if after := s.Statistics(); !reflect.DeepEqual(before, after) || after.Success.Count != cores.SoloAfter+1 {
			t.Errorf("it is in the statistics: %+v, then %+v", before, after)
		}
		if p.seen.Solo || p.seen.Core != 0 {
			t.Errorf("it ran with %+v", p.seen)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestARequestInTheBackgroundEndsWithItsContextAndBeforeTheVersion cancels one that runs and one that waits.
func TestARequestInTheBackgroundEndsWithItsContextAndBeforeTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{can: true, token: make(chan struct{})}
		s := schedulerOf(p, model(), Config{Instances: 1, Threads: 1, MaxQueue: 1})
		running, end := context.WithCancel(t.Context())
		waiting, leave := context.WithCancel(t.Context())
		first, second := behind(running, s), behind(waiting, s)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		leave()
		if err := <-second; edgewise.KindOf(err) != edgewise.Canceled {
			t.Errorf("the one that waited: %v", err)
		}
		synctest.Wait()
		if len(closed) > 0 || p.closed.Load() {
			t.Error("the version was closed during its run")
		}
		if err := <-behind(t.Context(), s); edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("after Close: %v", err)
		}
		end()
		if err := <-first; edgewise.KindOf(err) != edgewise.Canceled {
			t.Errorf("the one that ran: %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// TestARequestInTheBackgroundQueuesWhereItsRunCannotGiveWay has no such run in the background.
func TestARequestInTheBackgroundQueuesWhereItsRunCannotGiveWay(t *testing.T) {
	for name, test := range map[string]struct {
		can     bool
		threads int
	}{"instance": {false, 1}, "device": {true, 0}, "threads": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := schedulerOf(&patient{can: test.can}, model(), Config{
					Instances: 1, Cores: cores.New(2), Threads: test.threads, MaxQueue: 1,
				})
				if err := <-behind(t.Context(), s); err != nil || s.Statistics().Success.Count != 1 {
					t.Errorf("%v, %+v", err, s.Statistics().Success)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
