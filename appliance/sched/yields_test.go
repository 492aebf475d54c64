package sched

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestYieldsBecomeRareWithoutOtherRequests(t *testing.T) {
	for _, tc := range []struct {
		name    string
		brings  func(n int) bool // whether the n-th yield brings a job
		chances int
		least   int
		most    int
	}{
		{"alone", func(int) bool { return false }, 3200, 100, 110},
		{"always together", func(int) bool { return true }, 3200, 3200, 3200},
		{"a job that comes late", func(n int) bool { return n > 50 }, 3200, 1700, 1900},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var y yields
			n := 0
			for range tc.chances {
				if y.due() {
					n++
					y.brought(tc.brings(n))
				}
			}
			if n < tc.least || n > tc.most {
				t.Errorf("%d yields in %d batches, want %d to %d", n, tc.chances, tc.least, tc.most)
			}
		})
	}
}

func TestAYieldBesideWaitingRequestsDoesNotMakeTheNextOnesRarer(t *testing.T) {
	for waiting, due := range map[int]bool{1: false, 2: true, 5: true} {
		q := newQueue(&edgewise.Model{}, policiesOf(&edgewise.Model{}), 8)
		for range waiting {
			if _, err := q.push(newJob()); err != nil {
				t.Fatal(err)
			}
		}
		q.mu.Lock()
		q.yield()
		if got := q.yields.due(); got != due {
			t.Errorf("with %d waiting and nobody coming, the next yield is due: %v, want %v", waiting, got, due)
		}
		q.mu.Unlock()
	}
}
