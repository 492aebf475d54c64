package monitor

import (
	"context"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// instant answers at once.
type instant struct{ resp *edgewise.Response }

func (i instant) Infer(context.Context, *edgewise.Request) (*edgewise.Response, error) {
	return i.resp, nil
}

func TestWhatEnsemblesAskForIsSeenButNotAsClients(t *testing.T) {
	latency := observe.NewLatencies(observe.LatencyConfig{})
	w := New(latency)
	part := edgewise.ModelID{Name: "part", Version: 1}
	ctx, req := t.Context(), &edgewise.Request{Model: part}
	for range 5 {
		if _, err := w.Inside(instant{&edgewise.Response{Model: part}}).Infer(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	w.Outside = instant{&edgewise.Response{Model: part}}
	if _, err := w.Answer(ctx, req, edgewise.Exchange{}); err != nil {
		t.Fatal(err)
	}
	tick := w.History.Tick(time.Now(), func(edgewise.ModelID) (s edgewise.Statistics, ok bool) { return s, false })
	if tick.Requests != 1 || len(tick.Models) != 1 || tick.Models[0].Requests != 6 {
		t.Errorf("%+v, want 6 requests of which 1 came from a client", tick)
	}
	if n := w.Requests.List(activity.RequestQuery{Limit: 10}); len(n) != 1 {
		t.Errorf("%d requests are listed, want the client's", len(n))
	}
}

func BenchmarkWatchedRequest(b *testing.B) {
	w := New(observe.NewLatencies(observe.LatencyConfig{}))
	id := edgewise.ModelID{Name: "cat", Version: 1}
	req := &edgewise.Request{
		Model:  id,
		Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: make([]byte, 16)}},
	}
	w.Outside = instant{&edgewise.Response{
		Model:   id,
		Outputs: []edgewise.Tensor{{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: make([]byte, 16)}},
	}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.Answer(context.Background(), req, edgewise.Exchange{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
