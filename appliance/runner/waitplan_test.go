package runner

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// firstCore is one that this process may run on.
func firstCore(t *testing.T) (core int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for !set.IsSet(core) {
		core++
	}
	return core
}

// TestALaneBreathesWhereItWaits wants the thread that it comes back on to be where the old one was kept, and the old
// one to be free.
func TestALaneBreathesWhereItWaits(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for _, core := range []int{anywhere, firstCore(t), anywhere} {
		moveTo(core, &all)
		yieldToScheduler(core, &all, false)
		want := all
		if core != anywhere {
			want.Zero()
			want.Set(core)
		}
		var now unix.CPUSet
		if err := unix.SchedGetaffinity(0, &now); err != nil || now != want {
			t.Errorf("core %d: %v, %v, want %v", core, now, err, want)
		}
	}
}

func TestWhoWaitsForALongRunRemainsOnItsCoreUntilItHasEnded(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test
	allowed := func() (set unix.CPUSet) {
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	before, core := allowed(), firstCore(t)
	for _, b := range []waitPlan{{core: core, stay: true}, {core: core}, {core: anywhere}} {
		back := b.pinCaller()
		if now := allowed(); b.stay && (now.Count() != 1 || !now.IsSet(core)) || !b.stay && now != before {
			t.Errorf("%+v: may run on %d cores", b, now.Count())
		}
		back()
		if allowed() != before {
			t.Errorf("%+v: elsewhere afterwards", b)
		}
	}
}

func TestALaneBreathesBeforeItWouldBeTooLate(t *testing.T) {
	for _, c := range []struct {
		name      string
		since, of time.Duration // the last maxUnscheduled, the last run
		want      bool
	}{
		{"short runs", 2 * time.Millisecond, 10 * time.Microsecond, false},
		{"short runs for long", 9 * time.Millisecond, 10 * time.Microsecond, true},
		{"one run that two of are too long", 4600 * time.Microsecond, 4600 * time.Microsecond, true},
		{"one run that two of are not", 4 * time.Millisecond, 4 * time.Millisecond, false},
		{"the second of them", 8 * time.Millisecond, 4 * time.Millisecond, true},
		{"a long wait before a run", time.Hour, time.Millisecond, true},
	} {
		now := time.Now()
		if got := mustYield(now.Add(-c.since), now.Add(-c.of), now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
