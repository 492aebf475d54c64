package sched

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestAHeldVersionRunsNothingUntilEnoughRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 10 * time.Millisecond}
		s := schedulerOf(
			r, batching(edgewise.DynamicBatching{}), Config{Instances: 1, MaxQueue: 100, Hold: Hold{Queued: 6}},
		)
		if err := s.Warm(t.Context(), []*edgewise.Request{row(9)}); err != nil {
			t.Fatal(err)
		}
		r.batches = nil
		const ms = time.Millisecond
		ends := outcome(t, s, []client{
			{0, row(1), nil},
			{1 * ms, row(2), nil},
			{2 * ms, row(3), nil},
			{30 * ms, row(4), nil},
			{40 * ms, row(5), nil},
			{50 * ms, row(6), nil},
			{70 * ms, row(7), nil},
		})
		if got, want := fmt.Sprint(r.batches), "[[1 2 3 4] [5 6] [7]]"; got != want {
			t.Errorf("batches %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(ends), "[ok 60ms ok 60ms ok 60ms ok 60ms ok 70ms ok 70ms ok 80ms]"; got != want {
			t.Errorf("ends %s, want %s", got, want)
		}
		_ = s.Close()
	})
}

func TestAHeldVersionRunsWhatWaitsWhenItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedulerOf(
			&recorder{}, batching(edgewise.DynamicBatching{}),
			Config{Instances: 1, MaxQueue: 100, Hold: Hold{Queued: 6}},
		)
		_ = s.Warm(t.Context(), nil)
		done := make(chan error, 1)
		go func() {
			r, err := s.Infer(t.Context(), row(1))
			r.Release()
			done <- err
		}()
		synctest.Wait()
		_ = s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
