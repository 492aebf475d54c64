package idle_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/idle"
)

func TestARequestOfAClientEndsWhatIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, open atomic.Int64
		w := idle.New(func() (int64, int64) { return begun.Load(), open.Load() })
		open.Store(1)
		time.AfterFunc(3*time.Second, func() { open.Store(0) })
		start := time.Now()
		if err := w.Quiet(t.Context(), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 4900*time.Millisecond || took > 6*time.Second {
			t.Errorf("it was quiet after %v: want 2 s after the last request", took)
		}
		ctx, stop := w.Guard(t.Context())
		defer stop()
		time.AfterFunc(time.Second, func() { begun.Add(1) })
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), idle.ErrTraffic) {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
	})
}

func TestOneMeasurementAtATimeHasTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := idle.New(func() (int64, int64) { return 0, 0 })
		_, stop := w.Guard(t.Context())
		time.AfterFunc(3*time.Second, stop)
		start := time.Now()
		second, end := w.Guard(t.Context())
		if took := time.Since(start); took < 3*time.Second || second.Err() != nil {
			t.Errorf("the second one began after %v (%v): want 3 s, when the first one was over", took, second.Err())
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		third, nothing := w.Guard(limited)
		nothing()
		if !errors.Is(context.Cause(third), context.DeadlineExceeded) {
			t.Errorf("one whose time was over before its turn got a context that ended with %v", context.Cause(third))
		}
		end()
		_, end = w.Guard(t.Context())
		end()
	})
}
