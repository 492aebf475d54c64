package roofline_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/roofline"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// network is a loaded model whose runs take a millisecond.
type network struct{}

func (network) Run(context.Context, []edgewise.Tensor, []string, edgewise.RunOptions) (*edgewise.Result, error) {
	return &edgewise.Result{Infer: time.Millisecond, Free: func() {}}, nil
}

func (network) Close() error { return nil }

// watched is a context that tells when somebody begins to wait with it.
type watched struct {
	context.Context
	waits func()
}

func (w watched) Done() <-chan struct{} {
	w.waits()
	return w.Context.Done()
}

// TestCallersDuringAMeasurementGetItsFigures has three callers at once, the first of which begins a measurement.
func TestCallersDuringAMeasurementGetItsFigures(t *testing.T) {
	kept, err := documents.Open(t.TempDir(), documents.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	var loads atomic.Int64
	began, others := make(chan struct{}), make(chan struct{})
	m := roofline.New(roofline.Config{
		Documents: kept, Idle: idle.New(func() (int64, int64) { return 0, 0 }), Cores: 1, Hardware: "a processor", Folder: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler),
		Load: func(context.Context, string, []byte, int) (edgewise.Instance, error) {
			if loads.Add(1) == 1 {
				close(began)
				<-others
			}
			return network{}, nil
		},
	})
	var work sync.WaitGroup
	figures := make([]*admin.Roofline, 3)
	ask := func(ctx context.Context, i int) {
		var err error
		if figures[i], err = m.Measure(ctx); err != nil {
			t.Error(err)
		}
	}
	work.Go(func() { ask(t.Context(), 0) })
	<-began
	var asking sync.WaitGroup
	asking.Add(2)
	for i := 1; i < 3; i++ {
		work.Go(func() { ask(watched{t.Context(), sync.OnceFunc(asking.Done)}, i) })
	}
	asking.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Measure(gone); edgewise.KindOf(err) != edgewise.Canceled {
		t.Errorf("a caller that has gone gets %v", err)
	}
	close(others)
	work.Wait()
	for i, r := range figures {
		if r == nil || !r.Measured.Equal(figures[0].Measured) {
			t.Errorf("%d: %+v, want %+v", i, r, figures[0])
		}
	}
	if n := loads.Load(); n != 3 {
		t.Errorf("%d models were loaded: want the 3 of one measurement", n)
	}
}
