package httpapi

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlineMovesTheSocketWhenItMust(t *testing.T) {
	type step struct {
		after time.Duration // of the step before
		limit time.Duration // from then; 0: none
		moved bool
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"none was wanted", []step{{0, 0, false}}},
		{"the first", []step{{0, time.Minute, true}}},
		{"again at once", []step{{0, time.Minute, true}, {0, time.Minute, false}}},
		{"within the slack", []step{{0, 64 * time.Second, true}, {time.Second, 64 * time.Second, false}}},
		{"beyond the slack", []step{{0, 64 * time.Second, true}, {time.Second + 1, 64 * time.Second, true}}},
		{"slack does not add up", []step{
			{0, 64 * time.Second, true},
			{600 * time.Millisecond, 64 * time.Second, false},
			{600 * time.Millisecond, 64 * time.Second, true},
		}},
		{"a shorter one", []step{{0, time.Minute, true}, {0, time.Second, true}}},
		{"a much longer one", []step{{0, time.Second, true}, {0, time.Minute, true}}},
		{"none any more", []step{{0, time.Second, true}, {0, 0, true}, {0, 0, false}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d deadline
				for i, s := range tc.steps {
					time.Sleep(s.after)
					d.want = time.Time{}
					if s.limit > 0 {
						d.want = time.Now().Add(s.limit)
					}
					moved := false
					if err := d.apply(func(time.Time) error { moved = true; return nil }); err != nil || moved != s.moved {
						t.Errorf("step %d: moved %v (%v), want %v", i, moved, err, s.moved)
					}
				}
			})
		})
	}
}

func TestDeadlineThatCannotBeMovedIsTriedAgain(t *testing.T) {
	d := deadline{want: time.Now().Add(time.Minute)}
	broken := errors.New("broken")
	for range 2 {
		if err := d.apply(func(time.Time) error { return broken }); !errors.Is(err, broken) {
			t.Fatalf("got %v, want %v", err, broken)
		}
	}
}
