package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
	"go.etcd.io/bbolt"
)

// DocumentCheck tells whether a document may stand under a key of a bucket. The error says what is wrong with it.
type DocumentCheck func(bucket, key string, value []byte) error

// CheckDocuments examines the documents of a data folder that no box serves from: all pages of the file, and each
// document by check. A missing file is whole. It changes nothing. Kind of error: Conflict when the file is in use.
func CheckDocuments(dir string, check DocumentCheck) ([]Finding, error) {
	if _, err := os.Lstat(filepath.Join(dir, documentsFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	bad, err := examineDocuments(dir, check)
	if err != nil && edgewise.KindOf(err) != edgewise.Corrupt {
		return nil, err
	}
	if err != nil {
		return []Finding{{Path: documentsFile, Problem: err.Error()}}, nil
	}
	var found []Finding
	for _, b := range bad {
		found = append(found, Finding{Path: documentsFile, Problem: b.problem})
	}
	return found, nil
}

// badDocument is a document that a check refuses.
type badDocument struct {
	bucket, key []byte
	problem     string
}

// examineDocuments returns the documents that check refuses. Kinds of error: Corrupt for a file that cannot be read as
// a whole, Conflict.
func examineDocuments(dir string, check DocumentCheck) (bad []badDocument, err error) {
	d, err := openDocuments(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.db.Close()) }()
	err = viewFile(d.db, func(tx *bbolt.Tx) error { bad, err = readDocuments(tx, check); return err })
	if err != nil {
		return nil, edgewise.Errorf("store.CheckDocuments", edgewise.Corrupt, "%s is damaged: %w", documentsFile, bare(err))
	}
	return bad, nil
}

// readDocuments walks all pages and returns the documents that check refuses. An error means that the file is damaged.
func readDocuments(tx *bbolt.Tx, check DocumentCheck) (bad []badDocument, err error) {
	for wrong := range tx.Check() { // to its end: it runs in a goroutine of its own
		if err == nil {
			err = wrong
		}
	}
	if err != nil {
		return nil, err
	}
	err = tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
		if string(bucket) == string(metaBucket) {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			if wrong := check(string(bucket), string(k), v); wrong != nil {
				bad = append(bad, badDocument{slices.Clone(bucket), slices.Clone(k), wrong.Error()})
			}
			return nil
		})
	})
	return bad, err
}

// RepairDocuments makes the documents of a data folder readable again while no box serves from it, and says what it
// did: a file that is damaged as a whole moves into the folder quarantine, and its newest readable snapshot takes its
// place; documents that check refuses are removed. Before anything is changed, a copy of the file is in quarantine.
// Kinds of error: Conflict when the folder is in use, Exhausted when the disk is full.
func RepairDocuments(dir string, check DocumentCheck) ([]Finding, error) {
	const op = "store.RepairDocuments"
	l := layout(dir)
	if _, err := os.Lstat(l.join(documentsFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	lock, err := lockFolder(l.lock())
	if err != nil {
		return nil, failFolder(op, "locking data folder", dir, err)
	}
	r := &documentsRepair{layout: l, aside: filepath.Join(l.quarantine(), time.Now().UTC().Format(stampFormat), documentsFile), check: check}
	err = r.run()
	if err = errors.Join(err, lock.release()); err != nil {
		return r.found, failFolder(op, "repairing the documents of", dir, err)
	}
	return r.found, nil
}

// documentsRepair is one run of RepairDocuments.
type documentsRepair struct {
	layout
	aside string // where the file goes, or a copy of it
	check DocumentCheck
	found []Finding
}

func (r *documentsRepair) run() error {
	bad, err := examineDocuments(string(r.layout), r.check)
	switch {
	case err != nil && edgewise.KindOf(err) != edgewise.Corrupt:
		return err
	case err == nil && len(bad) == 0:
		return nil
	}
	damaged := err
	file := r.join(documentsFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(r.aside), disk.FolderMode), copyPrivate(file, r.aside)); err != nil {
		return err
	}
	if damaged == nil {
		return r.remove(bad)
	}
	if err := r.putBack(damaged); err != nil {
		return err
	}
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if bad, err = examineDocuments(string(r.layout), r.check); err != nil {
		return err
	}
	return r.remove(bad)
}

// putBack gives the newest readable snapshot the place of the damaged file, or removes that file where there is none.
func (r *documentsRepair) putBack(damaged error) error {
	file, folder := r.join(documentsFile), r.join(documentsFolder)
	times, err := listSnapshots(folder, documentsPrefix)
	if err != nil {
		return err
	}
	for _, at := range slices.Backward(times) {
		path := snapshotPath(folder, documentsPrefix, at)
		if wrong := readable(path); wrong != nil {
			r.find("left in place", "%s: snapshot cannot be read: %v", r.relative(path), bare(wrong))
			continue
		}
		fresh := file + newSuffix
		if err := copyPrivate(path, fresh); err != nil {
			return err
		}
		if err := os.Rename(fresh, file); err != nil {
			return err
		}
		r.find("moved to "+r.relative(r.aside)+"; "+r.relative(path)+" is in its place", "%v", damaged)
		return disk.OS{}.SyncDir(string(r.layout))
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	r.find("moved to "+r.relative(r.aside)+"; there is no snapshot, so the box begins without accounts", "%v", damaged)
	return disk.OS{}.SyncDir(string(r.layout))
}

// readable tells whether every page of a bbolt file is sound.
func readable(path string) error {
	db, err := openBolt(path, documentsMode, true)
	if err != nil {
		return err
	}
	err = viewFile(db, func(tx *bbolt.Tx) error {
		_, err := readDocuments(tx, func(string, string, []byte) error { return nil })
		return err
	})
	return errors.Join(err, db.Close())
}

// remove takes documents out of the file in one transaction.
func (r *documentsRepair) remove(bad []badDocument) error {
	if len(bad) == 0 {
		return nil
	}
	d, err := openDocuments(string(r.layout))
	if err != nil {
		return err
	}
	err = guard(func() error {
		return d.db.Update(func(tx *bbolt.Tx) error {
			for _, b := range bad {
				if err := tx.Bucket(b.bucket).Delete(b.key); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err = errors.Join(err, d.db.Close()); err != nil {
		return err
	}
	for _, b := range bad {
		r.find("removed; the file as it was is "+r.relative(r.aside), "%s", b.problem)
	}
	return nil
}

func (r *documentsRepair) find(action, format string, args ...any) {
	var report Report
	report.find(edgewise.ModelID{}, documentsFile, action, format, args...)
	r.found = append(r.found, report.Findings...)
}

// copyPrivate makes a synced copy that its owner alone may read.
func copyPrivate(from, to string) error {
	private := disk.OS{Mode: documentsMode}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(disk.Copy(private, from, to), private.SyncDir(filepath.Dir(to)))
}
