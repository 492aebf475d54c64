package tune

import (
	"context"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of tunings that begin by themselves.
const (
	idleLook  = 10 * time.Second // between two looks at the traffic
	idleAfter = 10 * time.Minute // without a request of a client
)

// lookForIdle queues a tuning of a model that asks for it when nobody sends requests, once no client has sent one for a while.
// Run alone calls it.
func (t *Tuner) lookForIdle() {
	if t.config.Idle.Since() < idleAfter || t.waiting() > 0 {
		return
	}
	for _, r := range t.config.Models.Records() {
		v := r.Version(r.Label(edgewise.LiveLabel))
		if v == nil || !r.Wanted || slices.Contains(t.tried, v.ID) || !t.due(v) {
			continue
		}
		t.tried = append(t.tried, v.ID)
		ctx := edgewise.WithPrincipal(context.Background(), &edgewise.Principal{Kind: "box", Rights: edgewise.AllRights})
		if _, err := t.Start(ctx, v.ID.Name, admin.TuneRequest{}); err != nil {
			t.config.Logger.Info("a model that asks for it is not tuned", "model", v.ID.String(), "reason", err)
			continue
		}
		return // one at a time
	}
}

// due tells whether a version asks to be tuned when nobody sends requests, and has no report that holds here.
func (t *Tuner) due(v *edgewise.Version) bool {
	said, err := ownOf(v.Model)
	if err != nil || !said.Idle {
		return false
	}
	r, err := t.Report(v.ID)
	return err != nil || r.Stale != ""
}
