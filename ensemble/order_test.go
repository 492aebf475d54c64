package ensemble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
)

// inTurn sends n requests as a connection does that keeps their order, and waits for their answers.
func inTurn(t *testing.T, e *Ensemble, n int, change func(i int, req *edgewise.Request)) {
	t.Helper()
	var order ordering.Order
	var all sync.WaitGroup
	for i := range n {
		place := order.NewPlace()
		place.Take()
		all.Go(func() {
			defer place.Leave()
			time.Sleep(rand.N(time.Millisecond))
			if err := place.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			req := request(1)
			req.ID = fmt.Sprint(i)
			change(i, req)
			r, err := e.Infer(ordering.WithQueued(t.Context(), place.Leave), req)
			if err != nil {
				t.Error(err)
			}
			r.Release()
		})
	}
	all.Wait()
}

func (z *zoo) order(model string) []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	var ids []string
	for _, req := range z.asked[model] {
		ids = append(ids, req.ID)
	}
	return ids
}

func ascending(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}

// sleepy answers after a random time.
func sleepy(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
	time.Sleep(rand.N(time.Second))
	return plus(1)(ctx, req)
}

func TestRequestsReachTheFirstStepInTheOrderInWhichTheyCame(t *testing.T) {
	for _, inflight := range []uint32{0, 1, 3} {
		t.Run(fmt.Sprintf("max_inflight_requests %d", inflight), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := newZoo(t)
				z.add("a", 0, one, y, sleepy)
				m := pipeline(0, one, y, stepOf("a", names{"x": "x"}, names{"y": "t"}), stepOf("a", names{"x": "t"}, names{"y": "y"}))
				m.EnsembleScheduling.Step[1].ModelName = "b"
				z.add("b", 0, one, y, sleepy)
				m.EnsembleScheduling.MaxInflightRequests = inflight
				inTurn(t, z.ensemble(m), 40, func(int, *edgewise.Request) {})
				if got := z.order("a"); !slices.Equal(got, ascending(40)) {
					t.Errorf("the first step saw %v", got)
				}
				if z.requests("b") != 40 {
					t.Errorf("the second step saw %d requests", z.requests("b"))
				}
			})
		})
	}
}

func TestRequestsReachEachOfTheFirstStepsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, m := diamond(t)
		inTurn(t, z.ensemble(m), 40, func(int, *edgewise.Request) {})
		for _, model := range []string{"left", "right"} {
			if got := z.order(model); !slices.Equal(got, ascending(40)) {
				t.Errorf("%s saw %v", model, got)
			}
		}
	})
}

func TestStepsDoNotExchangeTheRequestsOfASequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZoo(t)
		z.add("before", 0, one, y, sleepy)
		z.add("sequence", 0, one, y, sleepy)
		m := pipeline(0, one, y, stepOf("before", names{"x": "x"}, names{"y": "t"}), stepOf("sequence", names{"x": "t"}, names{"y": "y"}))
		e := z.ensemble(m)
		inTurn(t, e, 60, func(i int, req *edgewise.Request) { req.Sequence.ID = uint64(i%3) + 1 })
		seen := map[uint64]int{}
		for _, req := range z.asked["sequence"] {
			var i int
			if _, err := fmt.Sscan(req.ID, &i); err != nil || i/3 != seen[req.Sequence.ID] {
				t.Errorf("sequence %d: request %s came as number %d", req.Sequence.ID, req.ID, seen[req.Sequence.ID])
			}
			seen[req.Sequence.ID]++
		}
		if len(e.sequences.lines) != 0 {
			t.Errorf("%d sequences are kept after their last request", len(e.sequences.lines))
		}
		if z.most("before") < 2 {
			t.Error("sequences wait for each other")
		}
	})
}

func TestACanceledRequestOfASequenceLetsTheNextOneGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZoo(t)
		z.add("a", 0, one, y, func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
			time.Sleep(time.Second)
			return plus(1)(ctx, req)
		})
		e := z.ensemble(pipeline(0, one, y, stepOf("a", names{"x": "x"}, names{"y": "y"})))
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				ctx := t.Context()
				if i == 1 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
				}
				req := request(1)
				req.Sequence.ID = 5
				r, err := e.Infer(ctx, req)
				if (err != nil) != (i == 1) {
					t.Errorf("request %d: %v", i, err)
				}
				r.Release()
			})
			synctest.Wait()
		}
		all.Wait()
		if z.requests("a") != 2 {
			t.Errorf("%d requests", z.requests("a"))
		}
	})
}
