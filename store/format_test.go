package store

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// newer makes a file what a later release may have made of it, and returns what it has added that has to stay.
func newer(t *testing.T, db *bbolt.DB, schema, reader string, known [][]byte) (added map[string]string) {
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
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		problems = append(problems, meta.Put(schemaKey, []byte(schema)), meta.Put([]byte("later"), []byte("x")))
		if reader != "" {
			problems = append(problems, meta.Put(readerKey, []byte(reader)))
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

func wantAdded(t *testing.T, db *bbolt.DB, added map[string]string) {
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

func TestWhatALaterReleaseHasAddedIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	v := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	mustLabel(t, s, "cat", "live", v.ID.Version)
	added := newer(t, s.db, "9", "1", [][]byte{versionsBucket, labelsBucket, blobsBucket})
	closeStore(t, s)

	s = open(t, dir, quiet())
	r, err := s.Record("cat")
	if err != nil || r.Label("live") != v.ID.Version || r.Version(v.ID.Version).Digest != v.Digest {
		t.Fatalf("read %+v, %v", r, err)
	}
	second := mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
	mustLabel(t, s, "cat", "live", second.ID.Version)
	if _, err := s.Rollback(context.Background(), "cat", "live"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteVersion(context.Background(), second.ID); err != nil {
		t.Fatal(err)
	}
	wantAdded(t, s.db, added)
	closeStore(t, s)
	if s = open(t, dir, quiet()); len(s.Records()) != 1 {
		t.Errorf("after a second start: %+v", s.Records())
	}
	closeStore(t, s)
	_, err = Repair(context.Background(), dir, quiet())
	wantKind(t, err, edgewise.Unsupported, "schema 9", "with the release that wrote it")
}

func TestWhatNeedsALaterReaderIsRefused(t *testing.T) {
	tests := []struct {
		name, schema, reader string
		kind                 edgewise.Kind
		texts                []string
	}{
		{"it says which", "9", "8", edgewise.Unsupported, []string{"schema 9", "from schema 8 on", "schema 1"}},
		{"it says nothing", "9", "", edgewise.Unsupported, []string{"schema 9", "schema 1"}},
		{"a reader that is no number", "9", "all", edgewise.Corrupt, []string{"reader", "all"}},
		{"a schema that is no number", "nine", "1", edgewise.Corrupt, []string{"schema", "nine"}},
		{"a schema below all", "0", "1", edgewise.Corrupt, []string{"schema", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, quiet())
			newer(t, s.db, tt.schema, tt.reader, nil)
			closeStore(t, s)
			before, err := os.ReadFile(filepath.Join(dir, catalogFile))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(dir, quiet())
			wantKind(t, err, tt.kind, tt.texts...)
			if after, err := os.ReadFile(filepath.Join(dir, catalogFile)); err != nil || string(after) != string(before) {
				t.Errorf("what cannot be read was changed: %v", err)
			}
		})
	}
}

func TestDocumentsOfALaterRelease(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDocuments(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	put := func(value string) {
		t.Helper()
		if err := d.Update(func(tx edgewise.DocumentsTx) error { return tx.Put("users", "anna", []byte(value)) }); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"name":"anna"}`)
	added := newer(t, d.db, "5", "1", [][]byte{[]byte("users")})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenDocuments(dir, quiet()); err != nil {
		t.Fatal(err)
	}
	put(`{"name":"anna","role":"admin"}`)
	wantAdded(t, d.db, added)
	newer(t, d.db, "5", "4", nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = OpenDocuments(dir, quiet())
	wantKind(t, err, edgewise.Unsupported, "schema 5", "from schema 4 on", "box.db")
}

func TestDocumentsWithoutANumberGetOne(t *testing.T) {
	dir := t.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, documentsFile), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDocuments(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.db.View(func(tx *bbolt.Tx) error {
		if got := string(tx.Bucket(metaBucket).Get(schemaKey)); got != "1" {
			t.Errorf("schema %q", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
