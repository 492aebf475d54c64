package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// SetLabel moves a label to a version. The version is loaded first: when that fails, the label stays where it is.
func (g *Registry) SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	if err := g.Changeable("registry.SetLabel", name); err != nil {
		return admin.LabelMove{}, err
	}
	if err := edgewise.CheckLabel(label); err != nil {
		return admin.LabelMove{}, edgewise.Errorf("registry.SetLabel", edgewise.Invalid, "%w", err)
	}
	unlock, err := g.Lock(ctx, name)
	if err != nil {
		return admin.LabelMove{}, err
	}
	defer unlock()
	return g.setLabel(ctx, name, label, version)
}

// setLabel is SetLabel with the model's lock held.
func (g *Registry) setLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	return g.moveLabel(ctx, edgewise.ModelID{Name: name, Version: version}, label, func() (edgewise.Label, error) {
		return g.store.SetLabel(ctx, name, label, version)
	})
}

// Rollback moves a label to the last version it pointed to that still exists, loading that first.
func (g *Registry) Rollback(ctx context.Context, name, label string) (admin.LabelMove, error) {
	unlock, err := g.lockStored(ctx, "registry.Rollback", name)
	if err != nil {
		return admin.LabelMove{}, err
	}
	defer unlock()
	record, err := g.store.Record(name)
	if err != nil {
		return admin.LabelMove{}, err
	}
	target := rollbackTarget(record, label)
	if target == 0 {
		_, err := g.store.Rollback(ctx, name, label) // which says why there is none
		return admin.LabelMove{}, err
	}
	return g.moveLabel(admin.WithCause(ctx, admin.CauseRollback), edgewise.ModelID{Name: name, Version: target}, label,
		func() (edgewise.Label, error) {
			return g.store.Rollback(ctx, name, label)
		})
}

func rollbackTarget(r *edgewise.Record, label string) int64 {
	i := slices.IndexFunc(r.Labels, func(l edgewise.Label) bool { return l.Name == label })
	if i < 0 {
		return 0
	}
	for _, number := range slices.Backward(r.Labels[i].History) {
		if r.Version(number) != nil {
			return number
		}
	}
	return 0
}

// RemoveLabel forgets a label; a version that nothing else asks for is unloaded.
func (g *Registry) RemoveLabel(ctx context.Context, name, label string) error {
	unlock, err := g.lockStored(ctx, "registry.RemoveLabel", name)
	if err != nil {
		return err
	}
	defer unlock()
	return g.removeLabel(ctx, name, label)
}

// removeLabel is RemoveLabel with the model's lock held.
func (g *Registry) removeLabel(ctx context.Context, name, label string) error {
	from := g.Labelled(name, label)
	if err := g.store.RemoveLabel(ctx, name, label); err != nil {
		return err
	}
	removed := admin.Deployment{Model: name, Label: label, From: from}
	g.config.History.Note(admin.WithCause(ctx, admin.CauseRemove), removed, time.Now(), nil)
	g.Tell(edgewise.ModelID{Name: name}, "label")
	return g.refresh(name)
}

// moveLabel tries a version, then moves a label to it, then waits until requests reach it. The model's lock is held.
func (g *Registry) moveLabel(
	ctx context.Context, to edgewise.ModelID, label string, move func() (edgewise.Label, error),
) (moved admin.LabelMove, err error) {
	began, from := time.Now(), g.Labelled(to.Name, label)
	var changes []admin.Difference
	if r := g.Lookup(to.Name); r != nil {
		changes = admin.SignatureChanges(r.Version(from), r.Version(to.Version))
	}
	defer func() {
		e := admin.Deployment{Model: to.Name, Label: label, From: from, To: to.Version, SignatureChanges: changes}
		g.config.History.Note(ctx, e, began, err)
		g.Tell(to, "label")
	}()
	moved.Label, err = g.tryAndMove(ctx, to, label, move)
	if err != nil {
		return moved, err
	}
	g.failed.keep(to)
	moved.SignatureChanges = changes
	attributes := []any{"model", to.Name, "label", label, "version", to.Version}
	if len(changes) > 0 {
		attributes = append(attributes, "signature_changes", admin.FormatDifferences(changes))
	}
	g.logger.Info("label moved", attributes...)
	return moved, nil
}

// Labelled returns the version a label points to, 0 for none.
func (g *Registry) Labelled(name, label string) int64 {
	if r := g.Lookup(name); r != nil {
		return r.Label(label)
	}
	return 0
}

// Tell says that something about a model has changed.
func (g *Registry) Tell(id edgewise.ModelID, what string) {
	if g.config.Changed != nil {
		g.config.Changed(id, what)
	}
}

func (g *Registry) tryAndMove(
	ctx context.Context, to edgewise.ModelID, label string, move func() (edgewise.Label, error),
) (edgewise.Label, error) {
	err := g.try(ctx, to, label)
	if err == nil && label == edgewise.LiveLabel {
		err = g.prove(ctx, to)
	}
	var moved edgewise.Label
	if err == nil {
		moved, err = move()
	}
	return moved, errors.Join(err, g.refresh(to.Name))
}

// prove asks whether a version that has been loaded may go live. One that was live before may: going back is not to
// depend on anything.
func (g *Registry) prove(ctx context.Context, to edgewise.ModelID) error {
	if cause := admin.CauseOf(ctx); g.config.Prove == nil || cause == admin.CauseRollback || cause == admin.CauseRestore {
		return nil
	}
	return g.config.Prove(ctx, to)
}

// Trial has run use a version, which is loaded beside those that serve where it is not ready, and unloaded again where
// nothing else asks for it. Changes of the model wait until run has ended. Errors: those of run, NotFound, and why the
// version cannot be loaded.
func (g *Registry) Trial(ctx context.Context, id edgewise.ModelID, run func() error) error {
	if _, err := g.version("registry.Trial", id); err != nil {
		return err
	}
	unlock, err := g.Lock(ctx, id.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if _, _, err := g.manager.Version(id); err == nil {
		return run()
	}
	err = g.try(ctx, id, "")
	if err == nil {
		err = run()
	}
	return errors.Join(err, g.refresh(id.Name))
}

// try loads a version beside those that serve, or, for the label live and where that is configured, in their place. It
// says why the version cannot be loaded.
func (g *Registry) try(ctx context.Context, id edgewise.ModelID, label string) error {
	record, err := g.store.Record(id.Name)
	if err != nil {
		return err
	}
	if record.Version(id.Version) == nil {
		return edgewise.Errorf("registry.SetLabel", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
	}
	record = g.overrides.apply(record)
	if label == edgewise.LiveLabel {
		g.manager.Replace(record, id.Version)
	} else {
		g.manager.Want(record, id.Version)
	}
	return g.manager.Await(ctx, id)
}
