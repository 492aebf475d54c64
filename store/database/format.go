package database

import (
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
)

// MetaBucket is the bucket of a file that holds the number of its format, under SchemaKey.
var (
	MetaBucket = []byte("meta")
	SchemaKey  = []byte("schema")
)

// ReaderKey stands beside SchemaKey: the lowest schema that a program must know to read a file. Where it is missing,
// that is the file's own. A release that only adds, which is the rule, raises the schema and leaves the reader: the
// release before it, to which a rollback goes back, opens what it has written and leaves alone what it does not know.
var ReaderKey = []byte("reader")

// Schema returns the schema of a file, 0 when it has none. Errors: Corrupt; Unsupported when it needs a newer
// reader.
func Schema(tx *bbolt.Tx, what string, known int) (int, error) {
	meta := tx.Bucket(MetaBucket)
	if meta == nil {
		return 0, nil
	}
	n, err := metaNumber(meta, SchemaKey, what, 0)
	if err != nil {
		return 0, err
	}
	reader, err := metaNumber(meta, ReaderKey, what, n)
	if err != nil {
		return 0, err
	}
	if reader > known {
		return n, edgewise.Errorf("database.Open", edgewise.Unsupported,
			"%s has schema %d, which can be read from schema %d on, and this release knows schema %d: use a newer edgewise", what, n, reader, known)
	}
	return n, nil
}

// metaNumber reads a number of a file's meta bucket, otherwise when it is not there.
func metaNumber(meta *bbolt.Bucket, key []byte, what string, otherwise int) (int, error) {
	text := meta.Get(key)
	if text == nil {
		return otherwise, nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return 0, edgewise.Errorf("database.Open", edgewise.Corrupt, "the %s of %s is %.20q, which is no number from 1 on", key, what, text)
	}
	return n, nil
}
