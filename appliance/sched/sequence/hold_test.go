package sequence

import (
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

func TestHeldSequencesBeginWhenSlotsAndBacklogAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), sched.Config{MaxQueue: 20, Hold: sched.Hold{Queued: 2, Backlog: 2}})
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
		p := play(t, &hasher{}, hashModel(0, nil), sched.Config{MaxQueue: 20, Hold: sched.Hold{Queued: 2}})
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
