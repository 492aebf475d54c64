package runner

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// TestRunsInTheBackgroundGiveWayToAllOthers asks runs for the scheduling class of their thread, in turns, with one that takes
// so long that its thread passes through Go's scheduler.
func TestRunsInTheBackgroundGiveWayToAllOthers(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	ask := func(want string, background bool) string {
		r, err := i.Run(t.Context(), nil, []string{want}, edgewise.RunOptions{Background: background})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Free()
		return string(r.Outputs[0].Data[4:])
	}
	if !i.Background() {
		t.Error("the instance does not say that it can")
	}
	for range 3 {
		for background, want := range map[bool]int{false: unix.SCHED_NORMAL, true: unix.SCHED_IDLE} {
			if got := ask("class", background); got != fmt.Sprint(want) {
				t.Errorf("background %v: class %s, want %d", background, got, want)
			}
		}
		ask("nap", true)
	}
	p, err := i.alive()
	if err != nil {
		t.Fatal(err)
	}
	idle := 0
	for _, thread := range child.Threads(p.PID) {
		if attributes, err := unix.SchedGetAttr(thread, 0); err == nil && attributes.Policy == unix.SCHED_IDLE {
			idle++
		}
	}
	if idle != 1 {
		t.Errorf("%d threads are idle ones, want that of one channel", idle)
	}
}
