package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// MaxLabelHistory bounds how many steps back a label remembers.
const MaxLabelHistory = 16

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
	var moved edgewise.Label
	err := s.change(ctx, op, name, func(r *edgewise.Record) (err error) {
		if r.Version(version) == nil {
			return noVersion(op, id)
		}
		old, there := findLabel(r, label)
		next := edgewise.Label{Name: label, Version: version}
		switch {
		case there && old.Version == version:
			moved = old
			return s.want(op, r, true)
		case there:
			next.History = append(slices.Clone(old.History), old.Version)
			next.History = next.History[max(0, len(next.History)-MaxLabelHistory):]
		case len(r.Labels) >= MaxLabels:
			return refuse(op, edgewise.TooLarge, id, "model %q has %d labels, the most that is allowed", name, len(r.Labels))
		}
		moved, err = s.writeLabel(op, id, next)
		return err
	})
	return moved, err
}

// Rollback points a label to where it pointed before, skipping versions that were deleted, and records that the box is
// to serve the model. It walks back one step at each call; the version it leaves is not remembered.
//
// Kinds of error: NotFound when there is no such model or label, Conflict when nothing that it pointed to still exists,
// Exhausted when the disk is full.
func (s *Store) Rollback(ctx context.Context, name, label string) (edgewise.Label, error) {
	const op = "store.Rollback"
	var moved edgewise.Label
	err := s.change(ctx, op, name, func(r *edgewise.Record) error {
		old, there := findLabel(r, label)
		if !there {
			return noLabel(op, name, label)
		}
		next, ok := stepBack(old, func(n int64) bool { return r.Version(n) != nil })
		if !ok {
			return refuse(op, edgewise.Conflict, edgewise.ModelID{Name: name},
				"label %q of model %q cannot roll back: no version it pointed to before still exists", label, name)
		}
		var err error
		moved, err = s.writeLabel(op, edgewise.ModelID{Name: name, Version: next.Version}, next)
		return err
	})
	return moved, err
}

// RemoveLabel removes a label. Its versions stay. Kinds of error: NotFound, Exhausted when the disk is full.
func (s *Store) RemoveLabel(ctx context.Context, name, label string) error {
	const op = "store.RemoveLabel"
	return s.change(ctx, op, name, func(r *edgewise.Record) error {
		if _, there := findLabel(r, label); !there {
			return noLabel(op, name, label)
		}
		return s.update(op, edgewise.ModelID{Name: name}, func(tx *bbolt.Tx) error {
			return tx.Bucket(labelsBucket).Delete(labelKey(name, label))
		})
	})
}

// SetWanted records whether the box is to serve a model. Kinds of error: NotFound, Exhausted when the disk is full.
func (s *Store) SetWanted(ctx context.Context, name string, wanted bool) error {
	const op = "store.SetWanted"
	return s.change(ctx, op, name, func(r *edgewise.Record) error { return s.want(op, r, wanted) })
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

func noLabel(op, name, label string) error {
	return refuse(op, edgewise.NotFound, edgewise.ModelID{Name: name}, "model %q has no label %q", name, label)
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
