// Package later makes files of bbolt what a later release may make of them.
package later

import (
	"encoding/json"
	"errors"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise/store/database"
)

// Make makes a file what a later release may have made of it, and returns what it has added that has to stay.
func Make(t *testing.T, db *bbolt.DB, schema, reader string, known [][]byte) (added map[string]string) {
	t.Helper()
	added = map[string]string{"galaxies": "m31", "\x00odd": "bytes"}
	err := db.Update(func(tx *bbolt.Tx) error {
		var problems []error
		for name, key := range added {
			b, err := tx.CreateBucketIfNotExists([]byte(name))
			if err != nil {
				return err
			}
			problems = append(problems, b.Put([]byte(key), []byte{1, 2, 3}))
		}
		meta, err := tx.CreateBucketIfNotExists(database.MetaBucket)
		if err != nil {
			return err
		}
		problems = append(problems, meta.Put(database.SchemaKey, []byte(schema)), meta.Put([]byte("later"), []byte("x")))
		if reader != "" {
			problems = append(problems, meta.Put(database.ReaderKey, []byte(reader)))
		}
		for _, name := range known {
			problems = append(problems, grow(tx.Bucket(name)))
		}
		return errors.Join(problems...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// grow gives every document of a bucket a field that nobody knows.
func grow(b *bbolt.Bucket) error {
	grown := map[string][]byte{}
	err := b.ForEach(func(k, v []byte) error {
		document := map[string]any{}
		if err := json.Unmarshal(v, &document); err != nil {
			return err
		}
		document["colour_of_the_sky"] = map[string]any{"blue": []int{1, 2}}
		text, err := json.Marshal(document)
		grown[string(k)] = text
		return err
	})
	for k, v := range grown {
		err = errors.Join(err, b.Put([]byte(k), v))
	}
	return err
}

// WantAdded fails unless all that Make has added is still there.
func WantAdded(t *testing.T, db *bbolt.DB, added map[string]string) {
	t.Helper()
	if err := db.View(func(tx *bbolt.Tx) error {
		for name, key := range added {
			if b := tx.Bucket([]byte(name)); b == nil || len(b.Get([]byte(key))) != 3 {
				t.Errorf("bucket %q of the later release is lost", name)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
