package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// writeCatalog makes a catalog file out of c and puts it at path in one step.
func writeCatalog(d disk.Disk, path string, c *contents) error {
	fresh := path + newSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := database.Open(fresh, catalogMode, false)
	if err != nil {
		return err
	}
	err = database.Guard(func() error { return db.Update(c.write) })
	if err = errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := d.Rename(fresh, path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

func (c *contents) write(tx *bbolt.Tx) error {
	for _, b := range buckets {
		if _, err := tx.CreateBucket(b); err != nil {
			return err
		}
	}
	if err := tx.Bucket(database.MetaBucket).Put(database.SchemaKey, []byte(strconv.Itoa(schema))); err != nil {
		return err
	}
	for _, v := range c.versions {
		if err := putVersion(tx, v); err != nil {
			return err
		}
	}
	for name, labels := range c.labels {
		for _, l := range labels {
			if err := putLabel(tx, name, l); err != nil {
				return err
			}
		}
	}
	for name := range c.wanted {
		if err := putWanted(tx, name); err != nil {
			return err
		}
	}
	for name, n := range c.highest {
		if err := raiseNumber(tx, name, n); err != nil {
			return err
		}
	}
	for id, t := range c.deleted {
		if err := putJSON(tx.Bucket(deletedBucket), versionKey(id), t); err != nil {
			return err
		}
	}
	return nil
}

// putVersion makes v exist: its entry, its number and its references to blobs.
func putVersion(tx *bbolt.Tx, v *edgewise.Version) error {
	if err := putJSON(tx.Bucket(versionsBucket), versionKey(v.ID), v); err != nil {
		return err
	}
	if err := raiseNumber(tx, v.ID.Name, v.ID.Version); err != nil {
		return err
	}
	for digest, size := range distinct(v.Files) {
		if _, err := addRef(tx, digest, size, 1); err != nil {
			return err
		}
	}
	return nil
}

// dropVersion ends v's existence under its name and returns the blobs that nobody names any more. grave is what is
// remembered of it.
func dropVersion(tx *bbolt.Tx, v *edgewise.Version, grave tombstone) (dead []edgewise.Digest, err error) {
	key := versionKey(v.ID)
	if err := tx.Bucket(versionsBucket).Delete(key); err != nil {
		return nil, err
	}
	if err := putJSON(tx.Bucket(deletedBucket), key, grave); err != nil {
		return nil, err
	}
	for digest, size := range distinct(v.Files) {
		refs, err := addRef(tx, digest, size, -1)
		if err != nil {
			return nil, err
		}
		if refs == 0 {
			dead = append(dead, digest)
		}
	}
	return dead, nil
}

// distinct returns the size of each blob that files name.
func distinct(files []edgewise.File) map[edgewise.Digest]int64 {
	sizes := make(map[edgewise.Digest]int64, len(files))
	for _, f := range files {
		sizes[f.Digest] = f.Size
	}
	return sizes
}

// addRef changes how many versions name a blob. An entry that nobody names is removed.
func addRef(tx *bbolt.Tx, d edgewise.Digest, size, delta int64) (refs int64, err error) {
	b, key := tx.Bucket(blobsBucket), []byte(d)
	var e blobEntry
	if value := b.Get(key); value != nil {
		if err := json.Unmarshal(value, &e); err != nil {
			return 0, err
		}
	}
	e.Refs, e.Size = e.Refs+delta, size
	if e.Refs <= 0 {
		return 0, b.Delete(key)
	}
	return e.Refs, putJSON(b, key, e)
}

func putLabel(tx *bbolt.Tx, name string, l edgewise.Label) error {
	return putJSON(tx.Bucket(labelsBucket), labelKey(name, l.Name), l)
}

// putWanted records that a model is to be served. bbolt reads an empty value back as none, so the value is not empty.
func putWanted(tx *bbolt.Tx, name string) error {
	return tx.Bucket(wantedBucket).Put([]byte(name), []byte{'1'})
}

// raiseNumber records that number n of a model was used.
func raiseNumber(tx *bbolt.Tx, name string, n int64) error {
	old, err := highestNumber(tx, name)
	if err != nil || old >= n {
		return err
	}
	return tx.Bucket(numbersBucket).Put([]byte(name), strconv.AppendInt(nil, n, 10))
}

// highestNumber returns the highest number that a model ever used, 0 for none.
func highestNumber(tx *bbolt.Tx, name string) (int64, error) {
	text := tx.Bucket(numbersBucket).Get([]byte(name))
	if text == nil {
		return 0, nil
	}
	return strconv.ParseInt(string(text), 10, 64)
}

func putJSON(b *bbolt.Bucket, key []byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}
