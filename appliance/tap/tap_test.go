package tap

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
)

var tappedModel = edgewise.ModelID{Name: "cat", Version: 3}

// offer offers a request of n bytes with its response, whose memory is used for something else after it.
func offer(p *Tap, n int) {
	req := edgewise.Request{
		ID: "7", Model: edgewise.ModelID{Name: "cat"}, Inputs: []edgewise.Tensor{oneTensor("x", 'a', n)},
		Outputs: []string{"y"},
	}
	resp := &edgewise.Response{Model: tappedModel, Outputs: []edgewise.Tensor{oneTensor("y", 'b', 5)}}
	p.Offer(Finished{Model: tappedModel, Request: req, Response: resp})
	for _, memory := range [][]byte{req.Inputs[0].Data, resp.Outputs[0].Data} {
		clear(memory)
	}
	req.Inputs[0].Shape[0], req.Outputs[0] = 9, "z"
}

func oneTensor(name string, content byte, n int) edgewise.Tensor {
	data := slices.Repeat([]byte{content}, n)
	return edgewise.Tensor{Name: name, Type: edgewise.Uint8, Shape: edgewise.Shape{int64(n)}, Data: data}
}

// all wants every request.
func all(edgewise.ModelID, error) bool { return true }

func TestASubscriberReceivesACopyOfARequestWithItsResponse(t *testing.T) {
	p := New(MaxBytes)
	received, release := make(chan *Finished), make(chan struct{})
	s := p.Subscribe(Subscriber{Wants: all, Queue: 1, Receive: func(f *Finished) {
		received <- f
		<-release
	}})
	defer s.Close()
	defer close(release)
	offer(p, 3)
	f := <-received
	if f.Model != tappedModel || f.Request.ID != "7" || f.Request.Outputs[0] != "y" || string(f.Request.Inputs[0].Data) != "aaa" ||
		f.Request.Inputs[0].Shape[0] != 3 || string(f.Response.Outputs[0].Data) != "bbbbb" {
		t.Errorf("received %+v", f)
	}
}

func TestOnlyWantedRequestsAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(MaxBytes)
		var errs []error
		s := p.Subscribe(Subscriber{
			Wants: func(_ edgewise.ModelID, err error) bool { return err != nil }, Queue: 9,
			Receive: func(f *Finished) { errs = append(errs, f.Err) },
		})
		failure := errors.New("out of order")
		offer(p, 1)
		p.Offer(Finished{Model: tappedModel, Err: failure})
		synctest.Wait()
		s.Close()
		if len(errs) != 1 || !errors.Is(errs[0], failure) {
			t.Errorf("received %v", errs)
		}
	})
}

func TestASlowSubscriberLosesRequestsAndDelaysNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(MaxBytes)
		release := make(chan struct{})
		s := p.Subscribe(Subscriber{Wants: all, Queue: 2, Receive: func(*Finished) { <-release }})
		for range 10 {
			offer(p, 1)
			synctest.Wait()
		}
		used := p.memory.InUse()
		if n := testing.AllocsPerRun(10, func() { p.Offer(Finished{Model: tappedModel}) }); n != 0 || p.memory.InUse() != used {
			t.Errorf("a request that is dropped is copied: %v allocations, %d bytes and then %d", n, used, p.memory.InUse())
		}
		if received, dropped := s.Counts(); received != 1 || dropped != 18 {
			t.Errorf("%d received and %d dropped, want 1 being received, 2 that wait and 18 dropped", received, dropped)
		}
		close(release)
		synctest.Wait()
		s.Close()
		if n := p.memory.InUse(); n != 0 {
			t.Errorf("%d bytes are still used", n)
		}
	})
}

func TestARequestThatDoesNotFitIsDropped(t *testing.T) {
	p := New(1 << 10)
	s := p.Subscribe(Subscriber{Wants: all, Queue: 1, Receive: func(*Finished) {}})
	defer s.Close()
	offer(p, 2<<10)
	if received, dropped := s.Counts(); received != 0 || dropped != 1 {
		t.Errorf("%d received and %d dropped, want 1 dropped", received, dropped)
	}
}

func TestWithoutSubscribersNothingIsAllocated(t *testing.T) {
	p := New(MaxBytes)
	p.Subscribe(Subscriber{Wants: all, Queue: 1, Receive: func(*Finished) {}}).Close()
	if p.On() {
		t.Error("there are still subscribers")
	}
	f := Finished{Response: &edgewise.Response{}}
	if n := testing.AllocsPerRun(100, func() { p.Offer(f) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSubscriptionsMayEndWhileRequestsCome(t *testing.T) {
	p := New(MaxBytes)
	var clients, subscribers sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		clients.Go(func() {
			for !stop.Load() {
				offer(p, 100)
			}
		})
	}
	for range 4 {
		subscribers.Go(func() {
			for range 100 {
				got := make(chan struct{}, 1)
				s := p.Subscribe(Subscriber{Wants: all, Queue: 3, Workers: 2, Receive: func(f *Finished) {
					if string(f.Request.Inputs[0].Data[:3]) != "aaa" || string(f.Response.Outputs[0].Data) != "bbbbb" {
						t.Errorf("received %q", f.Request.Inputs[0].Data)
					}
					select {
					case got <- struct{}{}:
					default:
					}
				}})
				<-got
				s.Close()
			}
		})
	}
	subscribers.Wait()
	stop.Store(true)
	clients.Wait()
	if n := p.memory.InUse(); n != 0 || p.On() {
		t.Errorf("%d bytes are still used; there are subscribers: %v", n, p.On())
	}
}

func TestARequestWithSeveralResponsesIsDropped(t *testing.T) {
	p := New(MaxBytes)
	s := p.Subscribe(Subscriber{Wants: all, Queue: 1, Receive: func(*Finished) { t.Error("it was handed over") }})
	p.Offer(Finished{Model: tappedModel, Decoupled: true})
	s.Close()
	if received, dropped := s.Counts(); received != 0 || dropped != 1 {
		t.Errorf("%d received, %d dropped", received, dropped)
	}
}

func TestARequestThatTakesSeveralResponsesAndHasOneIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(MaxBytes)
		received := 0
		s := p.Subscribe(Subscriber{Wants: all, Queue: 1, Receive: func(f *Finished) {
			received++
			if f.Request.Each != nil || f.Request.Stop != nil {
				t.Error("a copy of the request may answer the client")
			}
		}})
		p.Offer(Finished{Model: tappedModel, Response: &edgewise.Response{Model: tappedModel}, Request: edgewise.Request{
			Each: func(*edgewise.Response) error { return nil }, Stop: t.Context(),
		}})
		synctest.Wait()
		s.Close()
		if received != 1 {
			t.Errorf("%d received", received)
		}
	})
}
