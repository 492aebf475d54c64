package documents

import (
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/test/later"
)

func TestDocumentsOfALaterRelease(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, quiet())
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
	added := later.Make(t, d.db, "5", "1", [][]byte{[]byte("users")})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(dir, quiet()); err != nil {
		t.Fatal(err)
	}
	put(`{"name":"anna","role":"admin"}`)
	later.WantAdded(t, d.db, added)
	later.Make(t, d.db, "5", "4", nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, quiet())
	for _, part := range []string{"schema 5", "from schema 4 on", "box.db"} {
		if edgewise.KindOf(err) != edgewise.Unsupported || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
}

func TestDocumentsWithoutANumberGetOne(t *testing.T) {
	dir := t.TempDir()
	db, err := bbolt.Open(filepath.Join(dir, fileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.db.View(func(tx *bbolt.Tx) error {
		if got := string(tx.Bucket(database.MetaBucket).Get(database.SchemaKey)); got != "1" {
			t.Errorf("schema %q", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
