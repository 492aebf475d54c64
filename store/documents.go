package store

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// documentsFile is the file of Documents in the data folder, for its owner alone.
const (
	documentsFile = "box.db"
	documentsMode = 0o600
)

// Documents keeps what belongs to the box and not to a model: accounts, logs, drafts. A document is bytes under a bucket
// and a key. It is a file beside the catalog, so that copies of the catalog hold no secrets. It is safe for concurrent use.
type Documents struct {
	db   *bbolt.DB
	path string
}

// OpenDocuments opens the documents of a data folder that exists, making the file when it is not there. Errors: Conflict
// when another process has it open, Corrupt, Internal.
func OpenDocuments(dir string) (*Documents, error) {
	const op = "store.OpenDocuments"
	path := filepath.Join(dir, documentsFile)
	var db *bbolt.DB
	err := guard(func() (err error) {
		db, err = bbolt.Open(path, documentsMode, &bbolt.Options{Timeout: LockTimeout, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
		return err
	})
	switch {
	case err == nil:
		d := &Documents{db, path}
		if err := d.checkFormat(); err != nil {
			_ = db.Close()
			return nil, err
		}
		return d, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, busyFolder(path)
	}
	return nil, edgewise.Errorf(op, edgewise.Corrupt, "%s cannot be read: %w: put a copy of it back, or move it away to begin without accounts", path, err)
}

// documentsSchema is the number of the file's format.
const documentsSchema = 1

// checkFormat refuses a file that needs a newer program, and gives one that has no number its own.
func (d *Documents) checkFormat() error {
	var n int
	err := d.db.View(func(tx *bbolt.Tx) error {
		return guard(func() (err error) { n, err = checkFormat(tx, d.path, documentsSchema); return err })
	})
	if err != nil || n != 0 {
		return d.done(err)
	}
	return d.done(d.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		return meta.Put(schemaKey, []byte(strconv.Itoa(documentsSchema)))
	}))
}

// Close closes the file when no transaction is in progress.
func (d *Documents) Close() error {
	if err := d.db.Close(); err != nil {
		return edgewise.Errorf("store.Documents.Close", edgewise.Internal, "%s: %w", d.path, err)
	}
	return nil
}

// documentsTx is an edgewise.DocumentsTx.
type documentsTx struct{ tx *bbolt.Tx }

// View lets fn read one state.
func (d *Documents) View(fn func(tx edgewise.DocumentsTx) error) error {
	return d.done(d.db.View(func(tx *bbolt.Tx) error { return guard(func() error { return fn(documentsTx{tx}) }) }))
}

// Update lets fn change documents: all of it is on disk when Update returns nil, and none of it otherwise.
func (d *Documents) Update(fn func(tx edgewise.DocumentsTx) error) error {
	return d.done(d.db.Update(func(tx *bbolt.Tx) error { return guard(func() error { return fn(documentsTx{tx}) }) }))
}

func (d *Documents) done(err error) error {
	if err == nil {
		return nil
	}
	if _, own := errors.AsType[*edgewise.Error](err); own {
		return err
	}
	return failFolder("store.Documents", "changing", d.path, err)
}

// Get returns a document, nil when there is none.
func (t documentsTx) Get(bucket, key string) []byte {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get([]byte(key))
}

// Put stores a document, in place of one that is there.
func (t documentsTx) Put(bucket, key string, value []byte) error {
	b, err := t.tx.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	return b.Put([]byte(key), value)
}

// Delete removes a document; it may be missing.
func (t documentsTx) Delete(bucket, key string) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Delete([]byte(key))
}

// Each calls fn for every document of a bucket, by key, until fn returns an error.
func (t documentsTx) Each(bucket string, fn func(key string, value []byte) error) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, v []byte) error { return fn(string(k), v) })
}

// Append stores a document under the next number of its bucket, from 1 on. encode gets the number. A bucket that is
// appended to holds nothing else.
func (t documentsTx) Append(bucket string, encode func(number uint64) ([]byte, error)) (uint64, error) {
	b, err := t.tx.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return 0, err
	}
	number, err := b.NextSequence()
	if err != nil {
		return 0, err
	}
	value, err := encode(number)
	if err != nil {
		return 0, err
	}
	return number, b.Put(binary.BigEndian.AppendUint64(nil, number), value)
}

// Backward calls fn for what was appended to a bucket, latest first, as long as fn returns true; only what has a smaller
// number than before, unless that is 0.
func (t documentsTx) Backward(bucket string, before uint64, fn func(number uint64, value []byte) bool) {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	c := b.Cursor()
	k, v := c.Last()
	if before > 0 {
		c.Seek(binary.BigEndian.AppendUint64(nil, before))
		k, v = c.Prev()
		if k == nil && before > b.Sequence() {
			k, v = c.Last()
		}
	}
	for ; len(k) == 8; k, v = c.Prev() {
		if !fn(binary.BigEndian.Uint64(k), v) {
			return
		}
	}
}

// Forward calls fn for what was appended to a bucket, oldest first, as long as fn returns true.
func (t documentsTx) Forward(bucket string, fn func(number uint64, value []byte) bool) {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.First(); len(k) == 8; k, v = c.Next() {
		if !fn(binary.BigEndian.Uint64(k), v) {
			return
		}
	}
}

// Drop removes the oldest n documents that were appended to a bucket.
func (t documentsTx) Drop(bucket string, n int) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	c := b.Cursor()
	for k, _ := c.First(); k != nil && n > 0; k, _ = c.First() {
		if err := c.Delete(); err != nil {
			return err
		}
		n--
	}
	return nil
}

var _ edgewise.Documents = (*Documents)(nil)
