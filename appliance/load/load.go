// Package load sends requests to a model to measure it: as many as it can answer, or so many a second.
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// maxOpen bounds the requests in progress at a rate. Further ones are not sent.
const maxOpen = 1024

// Source sends the sample requests to one model, one after the other and again from the first. It is safe for concurrent
// use.
type Source struct {
	Infer     func(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error)
	Samples   []*edgewise.Request
	Sequences bool // each request is a sequence of its own
	next      atomic.Uint64
}

// Answer is what became of a request.
type Answer struct {
	Due  time.Duration // when it was to be sent, since the first one
	Took time.Duration // from then until it was answered
	Err  error         // see Refused
}

// End is when a request was answered, since the first one was due.
func (a Answer) End() time.Duration { return a.Due + a.Took }

// Refused tells whether an error says that there was too much to do, and not that the model is wrong.
func Refused(err error) bool {
	switch edgewise.KindOf(err) {
	case edgewise.Busy, edgewise.Canceled, edgewise.Deadline:
		return true
	}
	return errors.Is(err, context.Canceled)
}

// Next returns a number that no other request of the source has.
func (s *Source) Next() uint64 { return s.next.Add(1) }

// Send sends the next sample and waits for its answer.
func (s *Source) Send(ctx context.Context) error {
	n := s.next.Add(1)
	req := *s.Samples[int(n)%len(s.Samples)]
	if s.Sequences {
		req.Sequence = edgewise.Sequence{ID: n, Start: true, End: true}
	}
	resp, err := s.Infer(ctx, &req)
	resp.Release()
	return err
}

// Saturate keeps as many requests in progress as callers: it begins none once until has ended, and those in progress end
// with ctx. note is told of each answer, by one goroutine at a time.
func (s *Source) Saturate(ctx, until context.Context, callers int, note func(Answer)) {
	var (
		mu    sync.Mutex // held while note runs
		work  sync.WaitGroup
		began = time.Now()
	)
	for range callers {
		work.Go(func() {
			for until.Err() == nil {
				due := time.Since(began)
				err := s.Send(ctx)
				a := Answer{Due: due, Took: time.Since(began) - due, Err: err}
				mu.Lock()
				note(a)
				mu.Unlock()
			}
		})
	}
	work.Wait()
}

// Offer sends requests that arrive at random times, rate of them a second in the mean, for d and whatever becomes of those
// before them, and waits for the last answers, or until ctx ends. The same seed gives the same arrivals for as many requests,
// in units of the mean time between them. note is told of each answer, by one goroutine at a time. Beyond 1,024 requests in
// progress it is told of an error of kind Busy.
func (s *Source) Offer(ctx context.Context, rate float64, d time.Duration, seed uint64, note func(Answer)) {
	var (
		times = newArrivals(seed, rate*d.Seconds())
		mu    sync.Mutex // held while note runs
		work  sync.WaitGroup
		open  atomic.Int64
		began = time.Now()
		timer = time.NewTimer(0)
	)
	defer timer.Stop()
	tell := func(a Answer) {
		mu.Lock()
		defer mu.Unlock()
		note(a)
	}
	for due := time.Duration(0); ctx.Err() == nil; {
		due += time.Duration(times.next() / rate * float64(time.Second))
		if due > d {
			break
		}
		if wait := due - time.Since(began); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if open.Load() >= maxOpen {
			tell(Answer{Due: due, Err: edgewise.Errorf("load.Offer", edgewise.Busy, "%d requests were in progress", maxOpen)})
			continue
		}
		open.Add(1)
		work.Go(func() {
			defer open.Add(-1)
			err := s.Send(ctx)
			tell(Answer{Due: due, Took: time.Since(began) - due, Err: err})
		})
	}
	work.Wait()
}
