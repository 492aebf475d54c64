// Package documents keeps what belongs to the box and not to a model, in one file of bbolt beside the catalog.
package documents

import (
	"cmp"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// The file in the data folder, for its owner alone, and so is the folder of its snapshots.
const (
	fileName   = "box.db"
	fileMode   = 0o600
	folderName = "box-snapshots"
	folderMode = 0o700
	prefix     = "box-" // of the names of snapshots
)

// Defaults of the fields of Options that are zero: logs in the file change all the time.
const (
	DefaultSnapshotEvery = 6 * time.Hour
	DefaultSnapshots     = 8
)

// Options say how the documents are kept. A zero field takes its default.
type Options struct {
	// SnapshotEvery is how often the file is copied when it has changed. Negative: never.
	SnapshotEvery time.Duration
	// Snapshots is how many copies are kept.
	Snapshots int
	// Logger receives what goes wrong with a snapshot. nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.SnapshotEvery = cmp.Or(o.SnapshotEvery, DefaultSnapshotEvery)
	o.Snapshots = cmp.Or(o.Snapshots, DefaultSnapshots)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Documents keep what belongs to the box and not to a model: accounts, logs, drafts. A document is bytes under a
// bucket and a key. It is a file beside the catalog, so that copies of the catalog hold no secrets. It is safe for
// concurrent use.
type Documents struct {
	db     *bbolt.DB
	path   string
	copies *database.Copies
}

// Open opens the documents of a data folder that exists, making the file when it is not there. Errors: Conflict when
// another process has it open, Corrupt, Internal.
func Open(dir string, o Options) (*Documents, error) {
	o = o.withDefaults()
	d, err := openFile(dir)
	if err != nil {
		return nil, err
	}
	if err := d.checkFormat(); err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	folder := filepath.Join(dir, folderName)
	if err := errors.Join(os.MkdirAll(folder, folderMode), removePartial(folder)); err != nil {
		return nil, errors.Join(database.Fail("documents.Open", "making folder", folder, err), d.db.Close())
	}
	d.copies = &database.Copies{
		Disk: disk.OS{}, Log: o.Logger, DB: d.db, File: d.path, Folder: folder, Prefix: prefix,
		Every: o.SnapshotEvery, Keep: o.Snapshots,
	}
	d.copies.Start()
	return d, nil
}

// removePartial removes snapshots whose making was interrupted.
func removePartial(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, prefix+"*"+database.PartialSuffix))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func openFile(dir string) (*Documents, error) {
	path := filepath.Join(dir, fileName)
	db, err := database.Open(path, fileMode, false)
	if err == nil {
		return &Documents{db: db, path: path}, nil
	}
	if edgewise.KindOf(err) == edgewise.Conflict {
		return nil, err
	}
	return nil, edgewise.Errorf("documents.Open", edgewise.Corrupt,
		"%s cannot be read: %w: edgewise doctor --repair puts its latest snapshot back", path, err)
}

// schema is the number of the file's format.
const schema = 1

// database.Schema refuses a file that needs a newer program, and gives one that has no number its own.
func (d *Documents) checkFormat() error {
	var n int
	err := d.db.View(func(tx *bbolt.Tx) error {
		return database.Guard(func() (err error) { n, err = database.Schema(tx, d.path, schema); return err })
	})
	if err != nil || n != 0 {
		return d.done(err)
	}
	return d.done(d.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(database.MetaBucket)
		if err != nil {
			return err
		}
		return meta.Put(database.SchemaKey, []byte(strconv.Itoa(schema)))
	}))
}

// Close makes no more snapshots and closes the file when no transaction is in progress. A second call does nothing.
func (d *Documents) Close() error {
	d.copies.End()
	if err := d.db.Close(); err != nil {
		return edgewise.Errorf("documents.Close", edgewise.Internal, "%s: %w", d.path, err)
	}
	return nil
}

// transaction is an edgewise.DocumentsTx.
type transaction struct{ tx *bbolt.Tx }

// View lets fn read one state.
func (d *Documents) View(fn func(tx edgewise.DocumentsTx) error) error {
	return d.done(d.db.View(func(tx *bbolt.Tx) error { return database.Guard(func() error { return fn(transaction{tx}) }) }))
}

// Update lets fn change documents: all of it is on disk when Update returns nil, and none of it otherwise.
func (d *Documents) Update(fn func(tx edgewise.DocumentsTx) error) error {
	err := d.db.Update(func(tx *bbolt.Tx) error { return database.Guard(func() error { return fn(transaction{tx}) }) })
	if err == nil {
		d.copies.Note()
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
	return database.Fail("documents.Update", "changing", d.path, err)
}

// Get returns a document, nil when there is none.
func (t transaction) Get(bucket, key string) []byte {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get([]byte(key))
}

// Put stores a document, in place of one that is there.
func (t transaction) Put(bucket, key string, value []byte) error {
	b, err := t.tx.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	return b.Put([]byte(key), value)
}

// Delete removes a document; it may be missing.
func (t transaction) Delete(bucket, key string) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Delete([]byte(key))
}

// Each calls fn for every document of a bucket, by key, until fn returns an error.
func (t transaction) Each(bucket string, fn func(key string, value []byte) error) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, v []byte) error { return fn(string(k), v) })
}

// Append stores a document under the next number of its bucket, from 1 on. encode gets the number. A bucket that is
// appended to holds nothing else.
func (t transaction) Append(bucket string, encode func(number uint64) ([]byte, error)) (uint64, error) {
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
func (t transaction) Backward(bucket string, before uint64, fn func(number uint64, value []byte) bool) {
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
func (t transaction) Forward(bucket string, fn func(number uint64, value []byte) bool) {
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
func (t transaction) Drop(bucket string, n int) error {
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
