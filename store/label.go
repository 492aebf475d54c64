package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// SetLabel points a label of a model to a version, remembers where it pointed before, and records that the box is to
// serve the model, all in one step. A label that points there already stays as it is. Readers see the old or the new
// version, and so does the box after a loss of power.
//
// Kinds of error: Invalid for a name that edgewise.CheckLabel refuses, NotFound when there is no such model or version,
// TooLarge over MaxLabels, Exhausted when the disk is full.
func (s *Store) SetLabel(ctx context.Context, name, label string, version int64) (edgewise.Label, error) {
	const op = "store.SetLabel"
	id := edgewise.ModelID{Name: name, Version: version}
	if err := edgewise.CheckLabel(label); err != nil {
		return edgewise.Label{}, invalid(op, id, "%w", err)
	}
	if err := s.lockWriter(ctx, op); err != nil {
		return edgewise.Label{}, err
	}
	defer s.unlockWriter()
	r := s.view.Load().record(name)
	if r == nil {
		return edgewise.Label{}, noModel(op, name)
	}
	if r.Version(version) == nil {
		return edgewise.Label{}, noVersion(op, id)
	}
	old, there := findLabel(r, label)
	if there && old.Version == version {
		return old, s.want(op, r, true)
	}
	next := edgewise.Label{Name: label, Version: version}
	if there {
		next.History = remember(old)
	} else if len(r.Labels) >= MaxLabels {
		return edgewise.Label{}, refuse(op, edgewise.TooLarge, id, "model %q has %d labels, the most that is allowed", name, len(r.Labels))
	}
	return s.writeLabel(op, id, next)
}

// Rollback points a label to where it pointed before, skipping versions that were deleted, and records that the box is
// to serve the model. It walks back one step at each call; the version it leaves is not remembered.
//
// Kinds of error: NotFound when there is no such model or label, Conflict when nothing that it pointed to still exists,
// Exhausted when the disk is full.
func (s *Store) Rollback(ctx context.Context, name, label string) (edgewise.Label, error) {
	const op = "store.Rollback"
	if err := s.lockWriter(ctx, op); err != nil {
		return edgewise.Label{}, err
	}
	defer s.unlockWriter()
	r, old, err := s.labelled(op, name, label)
	if err != nil {
		return edgewise.Label{}, err
	}
	next, ok := stepBack(old, func(n int64) bool { return r.Version(n) != nil })
	if !ok {
		return edgewise.Label{}, refuse(op, edgewise.Conflict, edgewise.ModelID{Name: name},
			"label %q of model %q cannot roll back: no version it pointed to before still exists", label, name)
	}
	return s.writeLabel(op, edgewise.ModelID{Name: name, Version: next.Version}, next)
}

// RemoveLabel removes a label. Its versions stay. Kinds of error: NotFound, Exhausted when the disk is full.
func (s *Store) RemoveLabel(ctx context.Context, name, label string) error {
	const op = "store.RemoveLabel"
	if err := s.lockWriter(ctx, op); err != nil {
		return err
	}
	defer s.unlockWriter()
	if _, _, err := s.labelled(op, name, label); err != nil {
		return err
	}
	return s.update(op, edgewise.ModelID{Name: name}, func(tx *bbolt.Tx) error {
		return tx.Bucket(labelsBucket).Delete(labelKey(name, label))
	})
}

// SetWanted records whether the box is to serve a model. Kinds of error: NotFound, Exhausted when the disk is full.
func (s *Store) SetWanted(ctx context.Context, name string, wanted bool) error {
	const op = "store.SetWanted"
	if err := s.lockWriter(ctx, op); err != nil {
		return err
	}
	defer s.unlockWriter()
	r := s.view.Load().record(name)
	if r == nil {
		return noModel(op, name)
	}
	return s.want(op, r, wanted)
}

// want is SetWanted of a record that is there; the caller is the writer.
func (s *Store) want(op string, r *edgewise.Record, wanted bool) error {
	if r.Wanted == wanted {
		return nil
	}
	return s.update(op, edgewise.ModelID{Name: r.Name}, func(tx *bbolt.Tx) error {
		if wanted {
			return putWanted(tx, r.Name)
		}
		return tx.Bucket(wantedBucket).Delete([]byte(r.Name))
	})
}

func (s *Store) labelled(op, name, label string) (*edgewise.Record, edgewise.Label, error) {
	r := s.view.Load().record(name)
	if r == nil {
		return nil, edgewise.Label{}, noModel(op, name)
	}
	l, there := findLabel(r, label)
	if !there {
		return nil, l, refuse(op, edgewise.NotFound, edgewise.ModelID{Name: name}, "model %q has no label %q", name, label)
	}
	return r, l, nil
}

func (s *Store) writeLabel(op string, id edgewise.ModelID, l edgewise.Label) (edgewise.Label, error) {
	l.Changed = time.Now().UTC()
	err := s.update(op, id, func(tx *bbolt.Tx) error { return errors.Join(putLabel(tx, id.Name, l), putWanted(tx, id.Name)) })
	if err != nil {
		return edgewise.Label{}, err
	}
	l, _ = findLabel(s.view.Load().record(id.Name), l.Name)
	return l, nil
}

func findLabel(r *edgewise.Record, label string) (l edgewise.Label, there bool) {
	for _, l := range r.Labels {
		if l.Name == label {
			return l, true
		}
	}
	return l, false
}

// remember returns the history of a label that leaves its version.
func remember(l edgewise.Label) []int64 {
	h := append(slices.Clone(l.History), l.Version)
	return h[max(0, len(h)-edgewise.MaxLabelHistory):]
}

// stepBack points a label to the last version in its history that exists.
func stepBack(l edgewise.Label, exists func(int64) bool) (edgewise.Label, bool) {
	for i := len(l.History) - 1; i >= 0; i-- {
		if n := l.History[i]; n != l.Version && exists(n) {
			l.Version, l.History = n, slices.Clone(l.History[:i])
			return l, true
		}
	}
	return l, false
}
