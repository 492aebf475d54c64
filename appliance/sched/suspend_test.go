package sched

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// caller is a guest that asks another model, several times at once, and then works for as long as it does.
type caller struct {
	recorder
	other   *Scheduler
	machine *machineLoad
	calls   int
	fails   chan error
}

func (c *caller) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	var calls sync.WaitGroup
	for range c.calls {
		calls.Go(func() {
			nested := row(1)
			nested.Callers = append(slices.Clip(options.Callers), "caller")
			r, err := c.other.Infer(ctx, nested)
			if err != nil {
				c.fails <- err
			}
			r.Release()
		})
	}
	calls.Wait()
	c.machine.use(1)
	defer c.machine.use(-1)
	return c.recorder.Run(ctx, in, want, options)
}

func (*caller) GuestStatistics() edgewise.GuestStatistics { return edgewise.GuestStatistics{} }

// TestGuestsThatWaitForOtherModelsHoldNoCores has guests on every core ask a model that needs a core.
func TestGuestsThatWaitForOtherModelsHoldNoCores(t *testing.T) {
	for _, calls := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			machine, budget := &machineLoad{}, cores.New(2)
			inner := &worker{machine: machine, threads: 1}
			inner.takes = 5 * time.Millisecond
			other := schedulerOf(inner, model(), Config{Instances: 2, Cores: budget, Threads: 1, MaxQueue: 100})
			guest := &caller{
				recorder: recorder{takes: 10 * time.Millisecond}, other: other, machine: machine, calls: calls,
				fails: make(chan error, 100),
			}
			s := schedulerOf(guest, model(), Config{Instances: 2, Cores: budget, Threads: 1, MaxQueue: 100})
			var clients sync.WaitGroup
			for range 6 {
				clients.Go(func() {
					r, err := s.Infer(t.Context(), row(1))
					if err != nil {
						t.Error(err)
					}
					r.Release()
				})
			}
			clients.Wait()
			_, _ = s.Close(), other.Close()
			if len(guest.fails) > 0 || machine.most > 2 || budget.Idle() != 2 {
				t.Errorf(
					"%d calls: %d failed, %d ran at once, %d cores are free", calls, len(guest.fails), machine.most,
					budget.Idle(),
				)
			}
		})
	}
}

// sleepy is an instance whose process rests at first and takes a minute to start.
type sleepy struct {
	worker
	awake atomic.Bool
	held  atomic.Int64 // starts that were not released
	sure  atomic.Int64 // runs while there were some
}

// Run notes whether the process could not have gone.
func (s *sleepy) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if s.held.Load() > 0 {
		s.sure.Add(1)
	}
	return s.worker.Run(ctx, in, want, options)
}

func (s *sleepy) Resting() bool { return !s.awake.Load() }

func (s *sleepy) Wake(ctx context.Context) (func(), error) {
	select {
	case <-time.After(time.Minute):
		s.awake.Store(true)
		s.held.Add(1)
		return func() { s.held.Add(-1) }, nil
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
}

func (*sleepy) OnDemand(edgewise.Claims) {}

func (*sleepy) Rest() bool { return false }

func (*sleepy) Used() (time.Time, int64, bool) { return time.Time{}, 0, false }

func (*sleepy) Takes() (now, most int64) { return 0, 0 }

// TestOthersHaveTheCoresWhileAProcessIsStarted has requests on all instances of a model whose process rests.
func TestOthersHaveTheCoresWhileAProcessIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine, budget := &machineLoad{}, cores.New(2)
		rests := &sleepy{worker: worker{machine: machine, threads: 1}}
		s := schedulerOf(rests, model(), Config{Instances: 2, Cores: budget, Threads: 1, MaxQueue: 100})
		busy := &worker{machine: machine, threads: 1}
		busy.takes = 5 * time.Millisecond
		other := schedulerOf(busy, model(), Config{Instances: 2, Cores: budget, Threads: 1, MaxQueue: 100})
		var clients sync.WaitGroup
		for range 3 {
			clients.Go(func() {
				r, err := s.Infer(t.Context(), row(1))
				if err != nil {
					t.Error(err)
				}
				r.Release()
			})
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		clients.Go(func() {
			if _, err := s.Infer(short, row(1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a request that does not wait for the process got %v", err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		for range 10 {
			r, err := other.Infer(t.Context(), row(1))
			if err != nil {
				t.Error(err)
			}
			r.Release()
		}
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("10 requests of 5 ms to another model took %v", took)
		}
		clients.Wait()
		_, _ = s.Close(), other.Close()
		if machine.most > 2 || budget.Idle() != 2 {
			t.Errorf("%d ran at once, %d cores are free", machine.most, budget.Idle())
		}
		if n := rests.sure.Load(); n < 2 || rests.held.Load() != 0 {
			t.Errorf("%d of 2 runs that waited had a process that could not rest, %d starts were not released", n, rests.held.Load())
		}
	})
}
