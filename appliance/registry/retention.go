package registry

import (
	"context"

	"github.com/edgewise-ai/edgewise"
)

// retain deletes the oldest versions of a model beyond the latest Config.Keep ones. What somebody may need stays: a
// version with a label or notes, one that a rollback would bring back, and one that an ensemble pins.
func (g *Registry) retain(ctx context.Context, name string) {
	if g.config.Keep == nil {
		return
	}
	keep := g.config.Keep()
	record, err := g.store.Record(name)
	if keep == 0 || err != nil || len(record.Versions) <= keep {
		return
	}
	notes := NewNotes(g.config.Documents)
	for _, v := range record.Versions[:len(record.Versions)-keep] {
		if pointedTo(record, v.ID.Version) || notes.Get(v.ID) != "" {
			continue
		}
		err := g.DeleteVersion(ctx, v.ID)
		if err == nil || edgewise.KindOf(err) == edgewise.Conflict || edgewise.KindOf(err) == edgewise.NotFound {
			continue // it says so itself; somebody needs it; it is gone
		}
		g.logger.Error("an old version was not deleted", "model", v.ID.String(), "error", err)
	}
}

// pointedTo tells whether a label points to a version, or would after its rollback.
func pointedTo(r *edgewise.Record, version int64) bool {
	for _, l := range r.Labels {
		if l.Version == version {
			return true
		}
		for i := len(l.History) - 1; i >= 0; i-- {
			if n := l.History[i]; n != l.Version && r.Version(n) != nil {
				if n == version {
					return true
				}
				break
			}
		}
	}
	return false
}
