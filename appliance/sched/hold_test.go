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
		s := schedulerOf(r, batching(edgewise.DynamicBatching{}), Config{Lanes: 1, MaxQueue: 100, Hold: Hold{Queued: 6}})
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
		s := schedulerOf(&recorder{}, batching(edgewise.DynamicBatching{}), Config{Lanes: 1, MaxQueue: 100, Hold: Hold{Queued: 6}})
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

func TestHeldSequencesBeginWhenSlotsAndBacklogAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), Config{MaxQueue: 20, Hold: Hold{Queued: 2, Backlog: 2}})
		defer p.close()
		if err := p.s.Warm(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		first, second := p.ask(starts(1), 5, 0), p.ask(ends(1), 7, 0)
		third := p.ask(starts(2), 3, 0)
		first.waits(t)
		second.waits(t)
		gone := p.ask(starts(3), 1, 0)
		first.says(t, 31+5) // the fourth request, the second one of the backlog, ends the hold
		second.says(t, 31*36+7)
		third.says(t, 31+3)
		gone.cancel()
		gone.fails(t, edgewise.Canceled, "context canceled")
		p.say(ends(2), 1, 31*34+1)
		p.say(starts(4), 1, 31+1) // nothing is held any more
	})
}

func TestACanceledRequestOfAHeldSequenceIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), Config{MaxQueue: 20, Hold: Hold{Queued: 2}})
		defer p.close()
		_ = p.s.Warm(t.Context(), nil)
		gone := p.ask(starts(1), 5, 0)
		gone.cancel()
		gone.fails(t, edgewise.Canceled, "context canceled")
		first, second := p.ask(starts(2), 5, 0), p.ask(ends(2), 7, 0)
		first.says(t, 31+5)
		second.says(t, 31*36+7)
	})
}
