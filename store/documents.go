package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// documentsFile is the file of Documents in the data folder, for its owner alone, and so is the folder of its
// snapshots.
const (
	documentsFile       = "box.db"
	documentsMode       = 0o600
	documentsFolder     = "box-snapshots"
	documentsFolderMode = 0o700
	documentsPrefix     = "box-" // of the names of snapshots
)

// Defaults of Options for documents: logs in them change all the time.
const (
	DefaultDocumentsSnapshotEvery = 6 * time.Hour
	DefaultDocumentsSnapshots     = 8
)

// Documents keeps what belongs to the box and not to a model: accounts, logs, drafts. A document is bytes under a
// bucket and a key. It is a file beside the catalog, so that copies of the catalog hold no secrets. It is safe for
// concurrent use.
type Documents struct {
	db     *bbolt.DB
	path   string
	copies *copies
}

// OpenDocuments opens the documents of a data folder that exists, making the file when it is not there. Of the options
// it uses SnapshotEvery and Snapshots, which have defaults of their own, and Logger. Errors: Conflict when another
// process has it open, Corrupt, Internal.
func OpenDocuments(dir string, o Options) (*Documents, error) {
	o.SnapshotEvery = cmp.Or(o.SnapshotEvery, DefaultDocumentsSnapshotEvery)
	o.Snapshots = cmp.Or(o.Snapshots, DefaultDocumentsSnapshots)
	o = o.withDefaults()
	d, err := openDocuments(dir)
	if err != nil {
		return nil, err
	}
	if err := d.checkFormat(); err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	folder := filepath.Join(dir, documentsFolder)
	if err := errors.Join(os.MkdirAll(folder, documentsFolderMode), removePartial(folder)); err != nil {
		return nil, errors.Join(failFolder("store.OpenDocuments", "making folder", folder, err), d.db.Close())
	}
	d.copies = &copies{
		disk: o.disk, log: o.Logger, db: d.db, file: d.path, folder: folder, prefix: documentsPrefix,
		every: o.SnapshotEvery, keep: o.Snapshots,
	}
	d.copies.start()
	return d, nil
}

// removePartial removes snapshots whose making was interrupted.
func removePartial(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, documentsPrefix+"*"+partialSuffix))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func openDocuments(dir string) (*Documents, error) {
	path := filepath.Join(dir, documentsFile)
	db, err := openBolt(path, documentsMode, false)
	if err == nil {
		return &Documents{db: db, path: path}, nil
	}
	if edgewise.KindOf(err) == edgewise.Conflict {
		return nil, err
	}
	return nil, edgewise.Errorf("store.OpenDocuments", edgewise.Corrupt,
		"%s cannot be read: %w: edgewise doctor --repair puts its latest snapshot back", path, err)
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

// Close makes no more snapshots and closes the file when no transaction is in progress. A second call does nothing.
func (d *Documents) Close() error {
	d.copies.end()
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
	err := d.db.Update(func(tx *bbolt.Tx) error { return guard(func() error { return fn(documentsTx{tx}) }) })
	if err == nil {
		d.copies.changed.Store(true)
	}
	return d.done(err)
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

// Backward calls fn for what was appended to a bucket, latest first, as long as fn returns true; only what has a
// smaller number than before, unless that is 0.
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
