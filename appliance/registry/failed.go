package registry

import (
	"context"
	"log/slog"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// failedLoads are the versions that uploads brought and that could not be loaded when they were to go live, with the
// reason. The next upload of the model replaces them; see decision 0046.
type failedLoads struct {
	notes  Notes
	logger *slog.Logger
}

// add notes that a version failed to load.
func (f failedLoads) add(id edgewise.ModelID, cause error) {
	text := cause.Error()
	f.report(id, f.notes.Set(id, text[:min(len(text), admin.MaxNotesBytes)]))
}

// keep forgets that a version, or one of a model's for version 0, failed to load: no upload replaces it any more.
func (f failedLoads) keep(id edgewise.ModelID) {
	list, err := f.notes.Versions(id.Name)
	if err == nil && len(list) > 0 { // most have none: nothing is written for them
		err = f.notes.Forget(id)
	}
	f.report(id, err)
}

func (f failedLoads) report(id edgewise.ModelID, err error) {
	if err != nil {
		f.logger.Error("the note of a failed load was not written", "model", id.String(), "error", err)
	}
}

// GoLive moves the label live to a version that an upload brought. The next upload of the model replaces the version
// when that fails, unless the caller has chosen its number.
func (g *Registry) GoLive(ctx context.Context, id edgewise.ModelID, numbered bool) (admin.LabelMove, error) {
	moved, err := g.SetLabel(admin.WithCause(ctx, admin.CauseUpload), id.Name, edgewise.LiveLabel, id.Version)
	if err != nil && !numbered {
		g.failed.add(id, err)
	}
	return moved, err
}

// Keep has no upload replace a version that failed to load, or any of a model's for version 0.
func (g *Registry) Keep(id edgewise.ModelID) { g.failed.keep(id) }

// dropFailed deletes the versions of a model that failed to load. One that has a label, or that an ensemble pins,
// stays.
func (g *Registry) dropFailed(ctx context.Context, name string) {
	list, err := g.failed.notes.Versions(name)
	g.failed.report(edgewise.ModelID{Name: name}, err)
	for _, id := range list {
		err := g.DeleteVersion(ctx, id)
		switch {
		case err == nil: // it says so itself
		case edgewise.KindOf(err) == edgewise.Conflict || edgewise.KindOf(err) == edgewise.NotFound:
			g.failed.keep(id)
		default:
			g.logger.Error("a version that failed to load was not deleted", "model", id.String(), "error", err)
		}
	}
}
