package child

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackOffDoublesUpToItsBound(t *testing.T) {
	c := Restarts{}.Complete()
	var got []time.Duration
	for n := range 12 {
		got = append(got, c.BackOff(n+1))
	}
	ms := time.Millisecond
	want := []time.Duration{
		100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms,
		25600 * ms, 30000 * ms, 30000 * ms, 30000 * ms,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
