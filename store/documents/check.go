package documents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Check tells whether a document may stand under a key of a bucket. The error says what is wrong with it.
type Check func(bucket, key string, value []byte) error

// Examine examines the documents of a data folder that no box serves from: all pages of the file, and each
// document by check. A missing file is whole. It changes nothing. Kind of error: Conflict when the file is in use.
func Examine(dir string, check Check) ([]database.Finding, error) {
	if _, err := os.Lstat(filepath.Join(dir, fileName)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	bad, err := examine(dir, check)
	if err != nil && edgewise.KindOf(err) != edgewise.Corrupt {
		return nil, err
	}
	if err != nil {
		return []database.Finding{{Path: fileName, Problem: err.Error()}}, nil
	}
	var found []database.Finding
	for _, b := range bad {
		found = append(found, database.Finding{Path: fileName, Problem: b.problem})
	}
	return found, nil
}

// refused is a document that a check refuses.
type refused struct {
	bucket, key []byte
	problem     string
}

// examine returns the documents that check refuses. Kinds of error: Corrupt for a file that cannot be read as
// a whole, Conflict.
func examine(dir string, check Check) (bad []refused, err error) {
	d, err := openFile(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.db.Close()) }()
	err = database.View(d.db, func(tx *bbolt.Tx) error { bad, err = readAll(tx, check); return err })
	if err != nil {
		return nil, edgewise.Errorf("documents.Examine", edgewise.Corrupt, "%s is damaged: %w", fileName, database.Bare(err))
	}
	return bad, nil
}

// readAll walks all pages and returns the documents that check refuses. An error means that the file is damaged.
func readAll(tx *bbolt.Tx, check Check) (bad []refused, err error) {
	for wrong := range tx.Check() { // to its end: it runs in a goroutine of its own
		if err == nil {
			err = wrong
		}
	}
	if err != nil {
		return nil, err
	}
	err = tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
		if string(bucket) == string(database.MetaBucket) {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			if wrong := check(string(bucket), string(k), v); wrong != nil {
				bad = append(bad, refused{slices.Clone(bucket), slices.Clone(k), wrong.Error()})
			}
			return nil
		})
	})
	return bad, err
}

// Repair makes the documents of a data folder readable again while no box serves from it, and says what it
// did: a file that is damaged as a whole moves into the folder quarantine, and its newest readable snapshot takes its
// place; documents that check refuses are removed. Before anything is changed, a copy of the file is in quarantine.
// Kinds of error: Conflict when the folder is in use, Exhausted when the disk is full.
func Repair(dir string, check Check) ([]database.Finding, error) {
	const op = "documents.Repair"
	if _, err := os.Lstat(filepath.Join(dir, fileName)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	lock, err := database.LockFolder(dir)
	if err != nil {
		return nil, database.Fail(op, "locking data folder", dir, err)
	}
	aside := filepath.Join(database.QuarantineFolder, time.Now().UTC().Format(database.StampFormat), fileName)
	r := &repair{dir: dir, aside: aside, check: check}
	err = r.run()
	if err = errors.Join(err, lock.Release()); err != nil {
		return r.found, database.Fail(op, "repairing the documents of", dir, err)
	}
	return r.found, nil
}

// repair is one run of Repair.
type repair struct {
	dir   string
	aside string // in dir: where the file goes, or a copy of it
	check Check
	found []database.Finding
}

// in returns the path of what stands in the data folder.
func (r *repair) in(name string) string { return filepath.Join(r.dir, name) }

func (r *repair) run() error {
	bad, err := examine(r.dir, r.check)
	switch {
	case err != nil && edgewise.KindOf(err) != edgewise.Corrupt:
		return err
	case err == nil && len(bad) == 0:
		return nil
	}
	damaged := err
	file, aside := r.in(fileName), r.in(r.aside)
	if err := errors.Join(os.MkdirAll(filepath.Dir(aside), disk.FolderMode), copyPrivate(file, aside)); err != nil {
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
	if bad, err = examine(r.dir, r.check); err != nil {
		return err
	}
	return r.remove(bad)
}

// putBack gives the newest readable snapshot the place of the damaged file, or removes that file where there is none.
func (r *repair) putBack(damaged error) error {
	file, folder := r.in(fileName), r.in(folderName)
	times, err := database.ListSnapshots(folder, prefix)
	if err != nil {
		return err
	}
	for _, at := range slices.Backward(times) {
		path := database.SnapshotPath(folder, prefix, at)
		if wrong := readable(path); wrong != nil {
			r.find("left in place", "%s: snapshot cannot be read: %v", filepath.Join(folderName, filepath.Base(path)), database.Bare(wrong))
			continue
		}
		fresh := file + ".new"
		if err := copyPrivate(path, fresh); err != nil {
			return err
		}
		if err := os.Rename(fresh, file); err != nil {
			return err
		}
		r.find("moved to "+r.aside+"; "+filepath.Join(folderName, filepath.Base(path))+" is in its place", "%v", damaged)
		return disk.OS{}.SyncDir(r.dir)
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	r.find("moved to "+r.aside+"; there is no snapshot, so the box begins without accounts", "%v", damaged)
	return disk.OS{}.SyncDir(r.dir)
}

// readable tells whether every page of a bbolt file is sound.
func readable(path string) error {
	db, err := database.Open(path, fileMode, true)
	if err != nil {
		return err
	}
	err = database.View(db, func(tx *bbolt.Tx) error {
		_, err := readAll(tx, func(string, string, []byte) error { return nil })
		return err
	})
	return errors.Join(err, db.Close())
}

// remove takes documents out of the file in one transaction.
func (r *repair) remove(bad []refused) error {
	if len(bad) == 0 {
		return nil
	}
	d, err := openFile(r.dir)
	if err != nil {
		return err
	}
	err = database.Guard(func() error {
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
		r.find("removed; the file as it was is "+r.aside, "%s", b.problem)
	}
	return nil
}

func (r *repair) find(action, format string, args ...any) {
	r.found = append(r.found, database.Finding{Path: fileName, Problem: fmt.Sprintf(format, args...), Action: action})
}

// copyPrivate makes a synced copy that its owner alone may read.
func copyPrivate(from, to string) error {
	private := disk.OS{Mode: fileMode}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(disk.Copy(private, from, to), private.SyncDir(filepath.Dir(to)))
}
