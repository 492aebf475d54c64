package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
)

// Rewritten is what changes in a version that gets another name.
type Rewritten struct {
	Model *edgewise.Model
	Drop  string // the path of the file that Path takes the place of; empty: all files stay
	Path  string
	Data  []byte
}

// Rename gives a model another name, under which it keeps the numbers, labels and desired state that it has. Its
// versions begin to exist under the new name and end under the old one in one transaction. Their files are not copied,
// but for those that rewrite names: it is given a version and the folder of its files. The old name keeps the numbers
// that were used, so that no other version gets them, until the model gets that name again.
//
// Kinds of error: Invalid for a bad name; NotFound; Exists when a model has the new name; Conflict when a deleted version
// had a number under it, or the model changes meanwhile; Corrupt for a damaged version; those of rewrite; Exhausted.
func (s *Store) Rename(
	ctx context.Context, name, to string, rewrite func(v *edgewise.Version, dir string) (Rewritten, error),
) error {
	const op = "store.Rename"
	r := s.view.Load().record(name)
	switch {
	case edgewise.CheckName(to) != nil:
		return invalid(op, edgewise.ModelID{Name: to}, "%w", edgewise.CheckName(to))
	case r == nil:
		return noModel(op, name)
	case s.view.Load().record(to) != nil:
		return refuse(op, edgewise.Exists, edgewise.ModelID{Name: to}, "model %q exists already", to)
	}
	b := &Batch{store: s, name: name, imports: []Import{{Name: to, Versions: r.Versions, Labels: r.Labels, Wanted: r.Wanted}}}
	list, err := s.Renamings()
	if err = errors.Join(err, s.budget.enter(op, 0)); err != nil {
		return err
	}
	b.replaced = &deletion{store: s, record: r, versions: r.Versions, renamed: to, at: time.Now().UTC()}
	if len(list) > 0 && !b.replaced.at.After(list[len(list)-1].Time) { // the clock was set back: their order is that of their times
		b.replaced.at = list[len(list)-1].Time.Add(1)
	}
	defer b.replaced.removeTrash()
	for _, v := range r.Versions {
		if err := b.relabel(ctx, v, to, rewrite); err != nil {
			return errors.Join(err, b.Discard())
		}
	}
	return b.Put(ctx)
}

// relabel stages a version under another name.
func (b *Batch) relabel(
	ctx context.Context, v *edgewise.Version, to string, rewrite func(*edgewise.Version, string) (Rewritten, error),
) error {
	const op = "store.Rename"
	dir, err := b.store.Dir(v.ID)
	if err != nil {
		return err
	}
	changed, err := rewrite(v, dir)
	if err != nil {
		return err
	}
	g := b.store.staging(-1)
	g.shared = true
	id := edgewise.ModelID{Name: to, Version: v.ID.Version}
	b.parts = append(b.parts, &publication{
		store: b.store, staging: g, version: &edgewise.Version{ID: id, Model: changed.Model, Origin: v.Origin, Created: v.Created},
	})
	if err := g.prepare(); err != nil {
		return fail(op, id, "making a folder for model "+id.String(), err)
	}
	for _, f := range v.Files {
		if changed.Drop != "" && f.Path == changed.Drop {
			continue
		}
		if err := g.AddStored(f); err != nil {
			return err
		}
	}
	if changed.Drop == "" {
		return nil
	}
	_, err = g.Add(ctx, changed.Path, int64(len(changed.Data)), bytes.NewReader(changed.Data))
	return err
}

// returns tells whether a version that has the name was had the name of id before: it may have that again.
func returns(tx *bbolt.Tx, id edgewise.ModelID, was string) (bool, error) {
	for range 1000 { // a damaged catalog may lead in a circle
		value := tx.Bucket(deletedBucket).Get(versionKey(id))
		if value == nil {
			return false, nil
		}
		var t tombstone
		if err := json.Unmarshal(value, &t); err != nil {
			return false, err
		}
		if id.Name = t.Renamed; id.Name == "" || id.Name == was {
			return id.Name != "", nil
		}
	}
	return false, nil
}

// Renaming is that a model got another name.
type Renaming struct {
	From, To string
	Time     time.Time // UTC
}

// Renamings lists what models were renamed and have not got their old names again, by time.
func (s *Store) Renamings() ([]Renaming, error) {
	var list []Renaming
	err := database.View(s.db, func(tx *bbolt.Tx) error {
		return tx.Bucket(deletedBucket).ForEach(func(k, value []byte) error {
			var t tombstone
			id, ok := splitVersionKey(k)
			if err := json.Unmarshal(value, &t); err != nil || !ok || t.Renamed == "" {
				return err
			}
			list = append(list, Renaming{id.Name, t.Renamed, t.Deleted})
			return nil
		})
	})
	if err != nil {
		return nil, fail("store.Renamings", edgewise.ModelID{}, "reading the catalog", err)
	}
	slices.SortFunc(list, func(a, b Renaming) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.From, b.From))
	})
	return slices.Compact(list), nil
}
