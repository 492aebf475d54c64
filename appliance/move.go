package appliance

import (
	"context"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// moveLabel tries a version, then moves a label to it, then waits until requests reach it. The model's lock is held.
func (l *library) moveLabel(ctx context.Context, to edgewise.ModelID, label string, move func() (edgewise.Label, error)) (moved admin.LabelMove, err error) {
	began, from := time.Now(), l.labelled(to.Name, label)
	changes := l.signatureChanges(to.Name, from, to.Version)
	defer func() {
		e := admin.Deployment{Model: to.Name, Label: label, From: from, To: to.Version, SignatureChanges: changes}
		l.history.note(ctx, e, began, err)
		l.tell(to, "label")
	}()
	moved.Label, err = l.tryAndMove(ctx, to, label, move)
	if err != nil {
		return moved, err
	}
	l.failed.keep(to)
	moved.SignatureChanges = changes
	attributes := []any{"model", to.Name, "label", label, "version", to.Version}
	if len(changes) > 0 {
		attributes = append(attributes, "signature_changes", changesIn(changes))
	}
	l.logger.Info("label moved", attributes...)
	return moved, nil
}

// signatureChanges compares the tensors of two versions of a model; see the function.
func (l *library) signatureChanges(name string, from, to int64) []admin.Difference {
	r := l.record(name)
	if r == nil {
		return nil
	}
	return signatureChanges(r.Version(from), r.Version(to))
}

// labelled returns the version a label points to, 0 for none.
func (l *library) labelled(name, label string) int64 {
	if r := l.record(name); r != nil {
		return r.Label(label)
	}
	return 0
}

// tell says that something about a model has changed.
func (l *library) tell(id edgewise.ModelID, what string) {
	if l.changed != nil {
		l.changed(id, what)
	}
}

func (l *library) tryAndMove(ctx context.Context, to edgewise.ModelID, label string, move func() (edgewise.Label, error)) (edgewise.Label, error) {
	if err := l.try(ctx, to, label); err != nil {
		return edgewise.Label{}, errors.Join(err, l.refresh(to.Name))
	}
	moved, err := move()
	if err != nil {
		return edgewise.Label{}, errors.Join(err, l.refresh(to.Name))
	}
	return moved, l.refresh(to.Name)
}

// try loads a version beside those that serve, or, for the label live and where that is configured, in their place. It
// says why the version cannot be loaded.
func (l *library) try(ctx context.Context, id edgewise.ModelID, label string) error {
	record, err := l.store.Record(id.Name)
	if err != nil {
		return err
	}
	if record.Version(id.Version) == nil {
		return edgewise.Errorf("appliance.SetLabel", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
	}
	record = l.groups.apply(record)
	if label == edgewise.LiveLabel {
		l.manager.Replace(record, id.Version)
	} else {
		l.manager.Want(record, id.Version)
	}
	return l.manager.Await(ctx, id)
}
