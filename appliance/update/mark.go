package update

import (
	"context"

	"github.com/edgewise-ai/edgewise"
)

// What a slot can be marked as.
const (
	Good   = "good"   // it may be started, and its tries are forgotten
	Bad    = "bad"    // it is not started any more
	Active = "active" // it is good, and the next to be started
)

// Which slot is meant.
const (
	Booted = "booted" // the one that runs
	Other  = "other"  // the one that does not
)

// Mark marks a slot. Errors: Unavailable, with RAUC's reason.
func (u *Updater) Mark(ctx context.Context, as, slot string) error {
	if err := u.object.CallWithContext(ctx, installer+".Mark", 0, as, slot).Err; err != nil {
		return edgewise.Errorf("update.Mark", edgewise.Unavailable, "marking the %s slot as %s: %w", slot, as, err)
	}
	return nil
}
