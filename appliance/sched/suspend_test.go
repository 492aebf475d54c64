package sched

import (
	"context"
	"slices"
	"sync"
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
