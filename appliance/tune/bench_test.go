package tune

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// answering answers each request after a time.
func answering(took time.Duration) func(context.Context, *edgewise.Request) (*edgewise.Response, error) {
	return func(context.Context, *edgewise.Request) (*edgewise.Response, error) {
		time.Sleep(took)
		return &edgewise.Response{}, nil
	}
}

func TestMeasurementsEndWhenAClientComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Int64
		traffic := func() (int64, int64) { return began.Load(), 0 }
		b := &bench{Tuner: New(Config{Idle: idle.New(traffic)}), waiting: func(bool) {}, quiet: leastQuiet}
		if err := b.Quiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := b.guard(t.Context())
		time.AfterFunc(time.Second, func() { began.Add(1) })
		l := &load.Source{Infer: answering(10 * time.Millisecond), Samples: []*edgewise.Request{{}}}
		at := time.Now()
		if _, err := search.Saturate(ctx, l, 8, 10*time.Second); !errors.Is(err, idle.ErrTraffic) || time.Since(at) > 1100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(at))
		}
		stop()
		at = time.Now()
		if err := b.Quiet(t.Context()); err != nil || time.Since(at) < 2*leastQuiet-22*time.Millisecond {
			t.Errorf("%v, and it went on after %v", err, time.Since(at))
		}
	})
}
