package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/load"
)

// server answers one request at a time, each after a fixed time.
type server struct {
	turn chan struct{}
	took time.Duration
	fail error
	ids  map[uint64]int
}

func (s *server) infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.ids != nil {
		s.ids[req.Sequence.ID]++
	}
	time.Sleep(s.took)
	return &edgewise.Response{}, s.fail
}

func newSource(s *server) *load.Source {
	s.turn = make(chan struct{}, 1)
	return &load.Source{Infer: s.infer, Samples: []*edgewise.Request{{}}}
}

func TestASaturatedServerIsMeasuredAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSource(&server{took: 10 * time.Millisecond})
		e, err := Saturate(t.Context(), l, 8, time.Second)
		if err != nil || math.Abs(e.Value-100) > 2 || e.Low > 100 || e.High < 100 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestACandidateIsWarmedByTwoAnswersForEachCallerAndForABoundedTime(t *testing.T) {
	for _, test := range []struct {
		took  time.Duration
		after time.Duration
		fail  error
	}{
		{took: time.Millisecond, after: 16 * time.Millisecond},
		{took: time.Millisecond, after: 16 * time.Millisecond, fail: errors.New("no")},
		{took: 80 * time.Millisecond, after: mostWarm + 60*time.Millisecond}, // the one that runs ends
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			Warm(t.Context(), newSource(&server{took: test.took, fail: test.fail}), 8)
			if took := time.Since(began); took < test.after || took > test.after+2*test.took {
				t.Errorf("%v for each answer: %v, want %v", test.took, took, test.after)
			}
		})
	}
}

// batcher answers all that wait, up to some rows, in one batch, until ctx ends. Its goroutine is one of work.
func batcher(ctx context.Context, work *sync.WaitGroup, most int, row time.Duration) *load.Source {
	type call chan struct{}
	queue := make(chan call, maxCallers)
	work.Go(func() {
		for {
			var batch []call
			select {
			case c := <-queue:
				batch = append(batch, c)
			case <-ctx.Done():
				return
			}
			for len(batch) < most && len(queue) > 0 {
				batch = append(batch, <-queue)
			}
			time.Sleep(time.Duration(len(batch)) * row)
			for _, c := range batch {
				close(c)
				time.Sleep(10 * time.Microsecond) // of virtual time: one answer after the other
			}
		}
	})
	infer := func(ctx context.Context, _ *edgewise.Request) (*edgewise.Response, error) {
		answered := make(call)
		queue <- answered
		select {
		case <-answered:
			return &edgewise.Response{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &load.Source{Samples: []*edgewise.Request{{}}, Infer: infer}
}

// A rate between the first and the last answer of one batch says nothing.
func TestAnswersOfABatchThatComeTogetherAreNoRate(t *testing.T) {
	const row = 20 * time.Millisecond
	for _, most := range []int{1, 4, 8, 16, 32, 64} {
		for _, d := range []time.Duration{400 * time.Millisecond, 800 * time.Millisecond, 1500 * time.Millisecond} {
			if time.Duration(most)*row > 2*d {
				continue // a batch takes longer than the measurement
			}
			t.Run(fmt.Sprintf("%d in %v", most, d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, stop := context.WithCancel(t.Context())
					var work sync.WaitGroup
					defer work.Wait()
					defer stop()
					began := time.Now()
					e, err := Saturate(ctx, batcher(ctx, &work, most, row), Callers(2, most), d)
					if took := time.Since(began); err != nil || math.Abs(e.Value-50) > 2.5 || took > saturation*d {
						t.Errorf("%+v after %v, %v", e, took, err)
					}
				})
			})
		}
	}
}

func TestASlowServerIsGivenMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSource(&server{took: 100 * time.Millisecond})
		began := time.Now()
		e, err := Saturate(t.Context(), l, 8, 500*time.Millisecond)
		if err != nil || math.Abs(e.Value-10) > 1 || time.Since(began) > 3*500*time.Millisecond+drainTime {
			t.Errorf("%+v, %v, %v", e, err, time.Since(began))
		}
	})
}

func TestRequestsArriveWhateverBecomesOfThoseBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSource(&server{took: 10 * time.Millisecond})
		light, err := Offer(t.Context(), l, 10, 10*time.Second, 1)
		if err != nil || light.P50.Value < 10 || light.P50.Value > 11 || light.Requests < 70 || light.Requests > 130 {
			t.Errorf("%+v, %v", light, err)
		}
		// twice what it can do for a second: the last ones wait for all before them
		heavy, err := Offer(t.Context(), l, 200, time.Second, 1)
		if err != nil || heavy.P99.Value < 700 || heavy.P50.Value < 300 {
			t.Errorf("%+v, %v", heavy, err)
		}
		again, err := Offer(t.Context(), l, 200, time.Second, 1)
		if err != nil || again.Requests != heavy.Requests {
			t.Errorf("the same round had %d and %d requests, %v", heavy.Requests, again.Requests, err)
		}
	})
}

func TestAnErrorOfACandidateExcludesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSource(&server{took: time.Millisecond, fail: edgewise.Errorf("fake", edgewise.Internal, "no kernel")})
		var e *Excluded
		if _, err := Saturate(t.Context(), l, 4, time.Second); !errors.As(err, &e) {
			t.Error(err)
		}
		if _, err := Offer(t.Context(), l, 10, time.Second, 0); !errors.As(err, &e) {
			t.Error(err)
		}
	})
}

func TestEachRequestToAModelOfSequencesIsASequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{took: time.Millisecond, ids: map[uint64]int{}}
		l := newSource(s)
		l.Sequences = true
		if _, err := Offer(t.Context(), l, 100, time.Second, 0); err != nil || len(s.ids) < 50 {
			t.Errorf("%d sequences, %v", len(s.ids), err)
		}
	})
}
