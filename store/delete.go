package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
	"go.etcd.io/bbolt"
)

// DeleteVersion removes a version and every file that no other version has. Its number is not used again. The last
// version takes the model with it. Files that a reader has open stay readable to that reader.
//
// Kinds of error: NotFound, Conflict while a label points to the version, Exhausted when the disk is full.
func (s *Store) DeleteVersion(ctx context.Context, id edgewise.ModelID) error {
	const op = "store.DeleteVersion"
	d := &deletion{store: s, at: time.Now().UTC()}
	defer d.removeTrash()
	return s.change(ctx, op, id.Name, func(r *edgewise.Record) error {
		v := r.Version(id.Version)
		if v == nil {
			return noVersion(op, id)
		}
		if labels := labelsOn(r, id.Version); len(labels) > 0 {
			return refuse(op, edgewise.Conflict, id, "model %s cannot be deleted while a label points to it: %s", id,
				strings.Join(labels, ", "))
		}
		d.record, d.versions = r, []*edgewise.Version{v}
		return d.run(op, id)
	})
}

// DeleteModel removes a model: its versions, its labels, and the desired state. Numbers it used are not used again
// should the model come back. Kinds of error: NotFound, Exhausted when the disk is full.
func (s *Store) DeleteModel(ctx context.Context, name string) error {
	const op = "store.DeleteModel"
	d := &deletion{store: s, at: time.Now().UTC()}
	defer d.removeTrash()
	return s.change(ctx, op, name, func(r *edgewise.Record) error {
		d.record, d.versions = r, r.Versions
		return d.run(op, edgewise.ModelID{Name: name})
	})
}

func labelsOn(r *edgewise.Record, version int64) []string {
	var names []string
	for _, l := range r.Labels {
		if l.Version == version {
			names = append(names, l.Name)
		}
	}
	return names
}

// deletion removes versions of one model from the catalog and then from the disk.
type deletion struct {
	store    *Store
	record   *edgewise.Record
	versions []*edgewise.Version
	renamed  string // the name under which they go on existing; empty: they end
	at       time.Time

	dead  []edgewise.Digest // blobs that nobody names any more
	trash []string          // folders moved out of the way
}

// run marks the folders, so that a start after a crash knows them as garbage, ends the versions in one transaction, and
// removes folders and blobs. After the transaction nothing fails any more: what stays is swept by the next Open.
func (d *deletion) run(op string, id edgewise.ModelID) error {
	if err := d.mark(); err != nil {
		d.unmark()
		return fail(op, id, "marking model "+id.String()+" for deletion", err)
	}
	if err := d.store.update(op, id, d.drop); err != nil {
		d.unmark()
		return err
	}
	d.finish()
	return nil
}

// finish removes folders and blobs behind the transaction.
func (d *deletion) finish() {
	s := d.store
	for _, v := range d.versions {
		d.moveAway(s.root.version(v.ID))
	}
	s.removeEmpty(s.root.model(d.record.Name))
	for _, digest := range d.dead {
		_ = s.tidy("remove a blob that no version names", s.blobs.drop(digest))
	}
}

func (d *deletion) mark() error {
	for _, v := range d.versions {
		folder := d.store.root.version(v.ID)
		mark := filepath.Join(folder, pendingFile)
		if _, err := os.Lstat(folder); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := d.store.blobs.clear(mark); err != nil {
			return err
		}
		if err := disk.WriteFile(d.store.disk, mark, nil); err != nil {
			return err
		}
		if err := d.store.disk.SyncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// unmark removes the marks of the versions that stay.
func (d *deletion) unmark() {
	s := d.store
	for _, v := range d.versions {
		if s.broken == nil && s.view.Load().version(v.ID) != nil {
			_ = s.tidy("remove the mark of a failed deletion", s.blobs.clear(filepath.Join(s.root.version(v.ID), pendingFile)))
		}
	}
}

func (d *deletion) drop(tx *bbolt.Tx) error {
	for _, v := range d.versions {
		dead, err := dropVersion(tx, v, tombstone{v.Digest, d.at, d.renamed})
		if err != nil {
			return err
		}
		d.dead = append(d.dead, dead...)
	}
	if len(d.versions) < len(d.record.Versions) {
		return nil
	}
	for _, l := range d.record.Labels {
		if err := tx.Bucket(labelsBucket).Delete(labelKey(d.record.Name, l.Name)); err != nil {
			return err
		}
	}
	return tx.Bucket(wantedBucket).Delete([]byte(d.record.Name))
}

func (d *deletion) moveAway(folder string) {
	if _, err := os.Lstat(folder); errors.Is(err, os.ErrNotExist) {
		return
	}
	trash := d.store.root.newStaging()
	if d.store.tidy("move a deleted version away", d.store.disk.Rename(folder, trash)) == nil {
		d.trash = append(d.trash, trash)
	}
}

// removeTrash frees the room. It needs no lock: nobody else knows these folders.
func (d *deletion) removeTrash() {
	for _, folder := range d.trash {
		_ = d.store.tidy("remove a deleted version", d.store.disk.RemoveAll(folder))
	}
}
