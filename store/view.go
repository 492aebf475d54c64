package store

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// view is what the catalog says, in memory. It is never modified: a change makes a new one.
type view struct {
	records []*edgewise.Record // by Name
}

func newView(c *contents) *view {
	byName := make(map[string]*edgewise.Record)
	for id, v := range c.versions {
		r := byName[id.Name]
		if r == nil {
			r = &edgewise.Record{Name: id.Name, Labels: c.labels[id.Name], Wanted: c.wanted[id.Name]}
			byName[id.Name] = r
		}
		r.Versions = append(r.Versions, v)
	}
	v := &view{records: make([]*edgewise.Record, 0, len(byName))}
	for _, r := range byName {
		slices.SortFunc(r.Versions, byNumber)
		v.records = append(v.records, r)
	}
	slices.SortFunc(v.records, func(a, b *edgewise.Record) int { return strings.Compare(a.Name, b.Name) })
	return v
}

func byNumber(a, b *edgewise.Version) int { return cmp.Compare(a.ID.Version, b.ID.Version) }

func (v *view) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(v.records, name, func(r *edgewise.Record, name string) int {
		return strings.Compare(r.Name, name)
	})
}

// record returns the record of a model, nil when there is none.
func (v *view) record(name string) *edgewise.Record {
	if at, found := v.find(name); found {
		return v.records[at]
	}
	return nil
}

// version returns one version, nil when there is none.
func (v *view) version(id edgewise.ModelID) *edgewise.Version {
	if r := v.record(id.Name); r != nil {
		return r.Version(id.Version)
	}
	return nil
}

// with returns a view in which the model called name has the record r; a record without versions leaves the view.
func (v *view) with(name string, r *edgewise.Record) *view {
	at, found := v.find(name)
	end := at
	if found {
		end++
	}
	records := slices.Clone(v.records)
	if len(r.Versions) == 0 {
		return &view{slices.Delete(records, at, end)}
	}
	return &view{slices.Replace(records, at, end, r)}
}

// readRecord reads one model out of the catalog. Versions that old has are taken from there: they never change.
func readRecord(tx *bbolt.Tx, name string, old *edgewise.Record) (*edgewise.Record, error) {
	known := make(map[int64]*edgewise.Version)
	if old != nil {
		for _, v := range old.Versions {
			known[v.ID.Version] = v
		}
	}
	r := &edgewise.Record{Name: name, Wanted: tx.Bucket(wantedBucket).Get([]byte(name)) != nil}
	err := eachOf(tx.Bucket(versionsBucket), name, func(k, value []byte) (err error) {
		id, _ := splitVersionKey(k)
		v := known[id.Version]
		if v == nil {
			v, err = decodeVersion(k, value)
		}
		r.Versions = append(r.Versions, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = eachOf(tx.Bucket(labelsBucket), name, func(k, value []byte) error {
		_, l, err := decodeLabel(k, value)
		r.Labels = append(r.Labels, l)
		return err
	})
	return r, err
}

// eachOf calls fn for each key of a bucket that belongs to a model, ascending.
func eachOf(b *bbolt.Bucket, name string, fn func(k, v []byte) error) error {
	prefix := modelPrefix(name)
	cursor := b.Cursor()
	for k, v := cursor.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = cursor.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}
