package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// device is the file system of a store, and its commits. A test puts a failing one in its place.
type device interface {
	disk.Disk
	Commit(tx *bbolt.Tx) error
}

type osDevice struct{ disk.OS }

func (osDevice) Commit(tx *bbolt.Tx) error { return uncover(tx.Commit()) }

// uncover finds the system's error in one of bbolt's. When its file cannot grow, bbolt keeps nothing of the error but
// the text, path included.
func uncover(err error) error {
	var errno syscall.Errno
	if err == nil || errors.As(err, &errno) {
		return err
	}
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if strings.HasSuffix(err.Error(), full.Error()) {
			return full
		}
	}
	return err
}

// Permissions of the catalog.
const catalogMode = 0o640

// schema is the number of the catalog's format. One that needs a higher one to be read is refused.
const schema = 1

// The buckets, one a concern. docs/formats/store.md describes keys and values.
var (
	versionsBucket = []byte("versions")
	labelsBucket   = []byte("labels")
	wantedBucket   = []byte("wanted")
	numbersBucket  = []byte("numbers")
	deletedBucket  = []byte("deleted")
	blobsBucket    = []byte("blobs")
	buckets        = [][]byte{database.MetaBucket, versionsBucket, labelsBucket, wantedBucket, numbersBucket, deletedBucket, blobsBucket}
)

// blobEntry is the value of a blob: how many versions name it.
type blobEntry struct {
	Refs int64 `json:"refs"`
	Size int64 `json:"size"` // bytes
}

// tombstone is the value of a deleted version, whose number is never used again.
type tombstone struct {
	Digest  edgewise.Digest `json:"digest"`
	Deleted time.Time       `json:"deleted"`           // UTC
	Renamed string          `json:"renamed,omitempty"` // the name that the version got then; empty: it is gone
}

// modelPrefix begins the keys of everything that belongs to one model. Names hold no NUL.
func modelPrefix(name string) []byte { return append([]byte(name), 0) }

func versionKey(id edgewise.ModelID) []byte {
	return binary.BigEndian.AppendUint64(modelPrefix(id.Name), uint64(id.Version))
}

func labelKey(name, label string) []byte { return append(modelPrefix(name), label...) }

func splitVersionKey(k []byte) (id edgewise.ModelID, ok bool) {
	name, number, ok := bytes.Cut(k, []byte{0})
	if !ok || len(number) != 8 {
		return id, false
	}
	return edgewise.ModelID{Name: string(name), Version: int64(binary.BigEndian.Uint64(number))}, true
}

// readSchema returns the catalog's schema, 0 when it has none.
func readSchema(tx *bbolt.Tx) (int, error) { return database.Schema(tx, "the catalog", schema) }

// contents is everything a catalog says.
type contents struct {
	schema   int // of the file that was read
	versions map[edgewise.ModelID]*edgewise.Version
	labels   map[string][]edgewise.Label // by model
	wanted   map[string]bool
	highest  map[string]int64 // the highest number ever used, also of deleted models
	deleted  map[edgewise.ModelID]tombstone
	problems []string // entries that could not be read
}

func newContents() *contents {
	return &contents{
		versions: make(map[edgewise.ModelID]*edgewise.Version),
		labels:   make(map[string][]edgewise.Label),
		wanted:   make(map[string]bool),
		highest:  make(map[string]int64),
		deleted:  make(map[edgewise.ModelID]tombstone),
	}
}

// readContents reads a catalog file that nobody has open for writing.
func readContents(path string) (*contents, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := database.Open(path, catalogMode, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	c := newContents()
	err = database.View(db, c.read)
	return c, err
}

func (c *contents) read(tx *bbolt.Tx) error {
	n, err := readSchema(tx)
	if err != nil {
		return err
	}
	if n == 0 {
		return edgewise.Errorf("store.Open", edgewise.Corrupt, "the catalog has no schema")
	}
	c.schema = n
	c.each(tx, versionsBucket, c.readVersion)
	c.each(tx, labelsBucket, c.readLabel)
	c.each(tx, wantedBucket, func(k, _ []byte) error { c.wanted[string(k)] = true; return nil })
	c.each(tx, numbersBucket, func(k, v []byte) error {
		number, err := strconv.ParseInt(string(v), 10, 64)
		c.highest[string(k)] = number
		return err
	})
	c.each(tx, deletedBucket, func(k, v []byte) error {
		id, ok := splitVersionKey(k)
		if !ok {
			return errBadKey
		}
		var t tombstone
		err := json.Unmarshal(v, &t)
		c.deleted[id] = t
		return err
	})
	return nil
}

var errBadKey = errors.New("malformed key")

func (c *contents) each(tx *bbolt.Tx, bucket []byte, read func(k, v []byte) error) {
	b := tx.Bucket(bucket)
	if b == nil {
		c.problems = append(c.problems, fmt.Sprintf("bucket %s is missing", bucket))
		return
	}
	cursor := b.Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		if err := read(k, v); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("bucket %s, key %q: %v", bucket, k, err))
		}
	}
}

func (c *contents) readVersion(k, value []byte) error {
	v, err := decodeVersion(k, value)
	if err == nil {
		c.versions[v.ID] = v
	}
	return err
}

func (c *contents) readLabel(k, value []byte) error {
	name, l, err := decodeLabel(k, value)
	if err == nil {
		c.labels[name] = append(c.labels[name], l)
	}
	return err
}

func decodeVersion(k, value []byte) (*edgewise.Version, error) {
	id, ok := splitVersionKey(k)
	if !ok {
		return nil, errBadKey
	}
	v := new(edgewise.Version)
	if err := json.Unmarshal(value, v); err != nil {
		return nil, err
	}
	if v.ID != id {
		return nil, fmt.Errorf("value is about %s", v.ID)
	}
	return v, checkStored(v)
}

func decodeLabel(k, value []byte) (model string, l edgewise.Label, err error) {
	name, label, ok := bytes.Cut(k, []byte{0})
	if !ok {
		return "", l, errBadKey
	}
	if err := json.Unmarshal(value, &l); err != nil {
		return "", l, err
	}
	if l.Name != string(label) {
		return "", l, fmt.Errorf("value is about label %q", l.Name)
	}
	return string(name), l, nil
}

func (u *Usage) read(tx *bbolt.Tx) error {
	return tx.Bucket(blobsBucket).ForEach(func(_, value []byte) error {
		var e blobEntry
		if err := json.Unmarshal(value, &e); err != nil {
			return err
		}
		u.Blobs, u.Bytes = u.Blobs+1, u.Bytes+e.Size
		return nil
	})
}
