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
