package sequence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// TestOldestKeepsTheOrderOfAnswers lets a later request of another sequence be done first.
func TestOldestKeepsTheOrderOfAnswers(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := hashModel(0, oldest(4))
			m.SequenceBatching.Oldest.PreserveOrdering = ordered
			h := &hasher{delay: 10 * time.Millisecond}
			p := play(t, h, m, sched.Config{Instances: 2, MaxQueue: 9})
			defer p.close()
			slow := p.ask(starts(1), 5, 0)
			h.mu.Lock()
			h.delay = 0
			h.mu.Unlock()
			fast := p.ask(starts(2), 6, 0)
			if ordered {
				fast.waits(t)
			} else {
				fast.says(t, 31+6)
				slow.waits(t)
			}
			slow.says(t, 31+5)
			if ordered {
				fast.says(t, 31+6)
			}
		})
	}
}

// TestWarmUpOfSequences runs a request of several rows, each a sequence of its own, and leaves nothing behind.
func TestWarmUpOfSequences(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		h := &hasher{}
		p := play(t, h, m, sched.Config{MaxQueue: 9})
		defer p.close()
		req, want := step(p.batches, edgewise.Sequence{}, 5), "[[1]]"
		if m.MaxBatchSize > 1 {
			req.Inputs[0] = repeated(req.Inputs[0], 3)
			want = "[[1 2 3]]"
		}
		if err := p.s.Warm(t.Context(), []*edgewise.Request{req}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h.seen[:1]); got != want {
			t.Errorf("warmed up with %v, want %v", got, want)
		}
		if st := p.s.Statistics(); st.ExecutionCount+st.InferenceCount+st.Success.Count != 0 ||
			*st.Sequences != (edgewise.SequenceStatistics{}) {
			t.Errorf("statistics %+v %+v", st, st.Sequences)
		}
		req.Inputs[0].Data = nil
		if err := p.s.Warm(t.Context(), []*edgewise.Request{req}); err == nil ||
			!strings.Contains(err.Error(), `warm-up "r": input byte size mismatch`) {
			t.Errorf("a warm-up that cannot run: %v", err)
		}
		p.say(starts(1), 5, 31+5)
	})
}

// TestRows looks at the batches of the strategy direct: a sequence keeps its row, and rows without a request are there.
func TestRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hasher{delay: time.Millisecond}
		p := play(t, h, hashModel(4, direct(0, 0)), sched.Config{MaxQueue: 9})
		defer p.close()
		for id := range uint64(3) {
			p.say(starts(id+1), 5, 31+5)
		}
		p.say(goes(3), 1, 31*36+1)
		busy := p.ask(goes(2), 1, 0)
		one, three := p.ask(goes(1), 2, 0), p.ask(goes(3), 3, 0) // while it runs
		for i, a := range []*asked{busy, one, three} {
			a.says(t, []int64{31*36 + 1, 31*36 + 2, 31*(31*36+1) + 3}[i])
		}
		p.say(ends(1), 0, 31*(31*36+2))
		p.say(starts(7), 5, 31+5) // in the first row
		want := [][]int64{{1}, {0, 2}, {0, 0, 3}, {0, 0, 3}, {0, 2}, {1, 0, 3}, {1}, {7}}
		if fmt.Sprint(h.seen) != fmt.Sprint(want) {
			t.Errorf("rows %v, want %v", h.seen, want)
		}
		if st := p.s.Statistics(); st.InferenceCount != 9 || st.ExecutionCount != 8 || st.Success.Count != 9 {
			t.Errorf("statistics %+v", st)
		}
	})
}

// TestRowsWithARequestThatDoesNotFitAreThere lets a request of the last row run by itself, as one with parameters does.
func TestRowsWithARequestThatDoesNotFitAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hasher{delay: time.Millisecond}
		p := play(t, h, hashModel(4, direct(0, 0)), sched.Config{MaxQueue: 9})
		defer p.close()
		busy := p.ask(starts(1), 5, 0)
		two := p.ask(starts(2), 5, 0)
		req := step(true, starts(3), 5)
		req.Parameters = map[string]any{"a": "b"}
		alone := p.request(req)
		for _, a := range []*asked{busy, two, alone} {
			a.says(t, 31+5)
		}
		if got := fmt.Sprint(h.seen); got != "[[1] [0 2 0] [0 0 3]]" {
			t.Errorf("rows %v", got)
		}
	})
}

// TestARequestWhoseClientLeftIsCanceled lets a batch panic after all of its clients have left: the request that did
// nothing wrong is canceled, and does not report the fault of the other.
func TestARequestWhoseClientLeftIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hasher{delay: time.Millisecond}
		p := play(t, h, hashModel(4, direct(0, 0)), sched.Config{MaxQueue: 9})
		defer p.close()
		busy := p.ask(starts(1), 5, 0)
		bad, good := p.ask(starts(2), hashPanics, 0), p.ask(starts(3), 5, 0)
		h.mu.Lock()
		h.leaves = func() {
			bad.cancel()
			good.cancel()
		}
		h.mu.Unlock()
		busy.says(t, 31+5)
		good.fails(t, edgewise.Canceled, "")
		bad.fails(t, edgewise.Canceled, "")
	})
}

// TestSlotUtilization waits for half of the rows, and not longer than the delay.
func TestSlotUtilization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hasher{}
		p := play(t, h, hashModel(4, direct(100*time.Millisecond, 0.5)), sched.Config{MaxQueue: 9})
		defer p.close()
		begin := time.Now()
		p.say(starts(1), 5, 31+5)
		if waited := time.Since(begin); waited != 100*time.Millisecond {
			t.Errorf("one of four rows waited %v", waited)
		}
		one, two := p.ask(goes(1), 7, 0), p.ask(starts(2), 5, 0)
		one.says(t, 31*36+7)
		two.says(t, 31+5)
		if waited := time.Since(begin); waited != 100*time.Millisecond || !slices.Equal(h.ready, []int{1, 2}) {
			t.Errorf("two of four rows waited until %v, %v", waited, h.ready)
		}
	})
}

// TestOldestRunsSequencesTogether waits for the preferred size, and runs no two requests of one sequence together.
func TestOldestRunsSequencesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hasher{delay: time.Millisecond}
		m := hashModel(4, oldest(3))
		m.SequenceBatching.Oldest.PreferredBatchSize, m.SequenceBatching.Oldest.MaxQueueDelay = []int32{3}, 100_000
		p := play(t, h, m, sched.Config{MaxQueue: 9})
		defer p.close()
		first := p.ask(starts(1), 5, 0)
		again := p.ask(goes(1), 7, 0)
		second, third := p.ask(starts(2), 6, 0), p.ask(starts(3), 7, 0)
		outside := p.ask(starts(4), 1, 0) // there are three candidates
		begin := time.Now()
		first.says(t, 31+5)
		second.says(t, 31+6)
		third.says(t, 31+7)
		if waited := time.Since(begin); waited != time.Millisecond {
			t.Errorf("three sequences waited %v", waited)
		}
		again.says(t, 31*36+7)
		if waited := time.Since(begin); waited != 102*time.Millisecond {
			t.Errorf("a single request waited %v", waited)
		}
		outside.waits(t)
		p.say(ends(1), 0, 31*(31*36+7))
		outside.says(t, 31+1)
		if !slices.Equal(h.rows[:2], []int{3, 1}) {
			t.Errorf("batches of %v", h.rows)
		}
	})
}
