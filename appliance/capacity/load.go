package capacity

import (
	"context"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/load"
)

// drainTime is for the requests in progress when the time of a check is over.
const drainTime = 5 * time.Second

// times are those of the requests of a load that were answered.
type times struct {
	took     []float64 // seconds
	lasted   time.Duration
	within   int // answered before the end of the time
	offered  int
	due      int // of those offered, early enough to be answered within the time
	late     int // of those due, not answered within it
	failed   int
	firstErr error
}

func (t *times) note(took time.Duration, within, due bool, err error) {
	if due && !within {
		t.late++
	}
	if err != nil {
		t.failed++
		if t.firstErr == nil {
			t.firstErr = err
		}
		return
	}
	t.took = append(t.took, took.Seconds())
	if within {
		t.within++
	}
}

// quantile is one of the times, in milliseconds; 0 for none.
func (t *times) quantile(q float64) float64 {
	if len(t.took) == 0 {
		return 0
	}
	slices.Sort(t.took)
	return 1000 * t.took[min(int(q*float64(len(t.took))), len(t.took)-1)]
}

// saturate keeps so many requests in progress for a time; those that were begun are counted whole. Error: the first one that
// does not say that there is too much.
func saturate(ctx context.Context, s *load.Source, callers int, d time.Duration) (*times, error) {
	until, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	t, began := &times{}, time.Now()
	s.Saturate(ctx, until, callers, func(a load.Answer) {
		t.note(a.Took, true, false, a.Err)
		if a.Err != nil && !load.Refused(a.Err) {
			cancel()
		}
	})
	t.lasted = time.Since(began)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case t.firstErr != nil && !load.Refused(t.firstErr):
		return nil, t.firstErr
	}
	return t, nil
}

// offer sends requests that arrive at random times, whatever becomes of those before them, and waits for the last answers.
// Requests of the last part of the time, of so long, need not be answered within it.
func offer(ctx context.Context, s *load.Source, rate float64, d, last time.Duration, seed uint64) *times {
	limited, cancel := context.WithTimeout(ctx, d+drainTime)
	defer cancel()
	t := &times{}
	s.Offer(limited, rate, d, seed, func(a load.Answer) {
		t.offered++
		counts := a.Due <= d-last
		if counts {
			t.due++
		}
		t.note(a.Took, a.Err == nil && a.End() <= d, counts, a.Err)
	})
	return t
}
