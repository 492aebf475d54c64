package monitor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/appliance/tap"
)

func TestRequestsOfClientsAreOfferedToTheTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := edgewise.ModelID{Name: "cat", Version: 3}
		resp := &edgewise.Response{Model: id}
		w := New(observe.NewLatencies(observe.LatencyConfig{}))
		w.Outside = instant{resp}
		failure := errors.New("out of order")
		received := make(chan tap.Finished, 9)
		s := w.Tap.Subscribe(tap.Subscriber{
			Wants: func(edgewise.ModelID, error) bool { return true }, Queue: 9,
			Receive: func(f *tap.Finished) { received <- *f },
		})
		ctx := edgewise.WithPrincipal(t.Context(), &edgewise.Principal{Kind: "key", Name: "camera"})
		req := &edgewise.Request{ID: "7", Model: edgewise.ModelID{Name: "cat"}}
		_, _ = w.Answer(ctx, req, edgewise.Exchange{})
		_, _ = w.Answer(ctx, req, edgewise.Exchange{Deliver: func(*edgewise.Response) error { return failure }})
		w.Refuse(ctx, id, time.Second, failure)
		_, _ = w.Inside(instant{resp}).Infer(ctx, req)
		synctest.Wait()
		s.Close()
		if len(received) != 2 {
			t.Fatalf("%d requests, want two, and none that was refused or came from within", len(received))
		}
		if f := <-received; f.Model != id || f.Caller.Name != "camera" || f.Request.ID != "7" || f.Response == nil || f.Err != nil {
			t.Errorf("%+v", f)
		}
		if f := <-received; !errors.Is(f.Err, failure) {
			t.Errorf("%+v", f)
		}
	})
}

func TestRequestsToADecoupledVersionAreDroppedByTheTap(t *testing.T) {
	plain, apart := edgewise.ModelID{Name: "cat", Version: 1}, edgewise.ModelID{Name: "cat", Version: 2}
	decoupled := &edgewise.ModelTransactionPolicy{Decoupled: true}
	w := New(observe.NewLatencies(observe.LatencyConfig{}))
	w.Learn([]*edgewise.Record{{Name: "cat", Versions: []*edgewise.Version{
		{ID: plain, Model: &edgewise.Model{}}, {ID: apart, Model: &edgewise.Model{ModelTransactionPolicy: decoupled}},
	}}})
	for _, test := range []struct {
		id                edgewise.ModelID
		received, dropped uint64
	}{{plain, 1, 0}, {apart, 0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := w.Tap.Subscribe(tap.Subscriber{
				Wants: func(edgewise.ModelID, error) bool { return true }, Queue: 1, Receive: func(*tap.Finished) {},
			})
			w.Outside = instant{&edgewise.Response{Model: test.id}}
			req := &edgewise.Request{Model: test.id, Each: func(*edgewise.Response) error { return nil }}
			_, _ = w.Answer(t.Context(), req, edgewise.Exchange{})
			synctest.Wait()
			s.Close()
			if received, dropped := s.Counts(); received != test.received || dropped != test.dropped {
				t.Errorf("%v: %d received, %d dropped", test.id, received, dropped)
			}
		})
	}
}
