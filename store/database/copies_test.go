package database

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise/store/disk"
)

func TestAFileThatHasNotChangedIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	db, err := Open(path, 0o600, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("a")); return err }); err != nil {
		t.Fatal(err)
	}
	c := &Copies{
		Disk: disk.OS{}, Log: slog.New(slog.DiscardHandler), DB: db, File: path, Folder: dir, Prefix: "a-", Every: -1, Keep: 2,
	}
	if wait := c.first(time.Now()); !c.changed.Load() || wait > 0 {
		t.Fatalf("never copied: changed %t, wait %v", c.changed.Load(), wait)
	}
	if err := c.Copy(); err != nil {
		t.Fatal(err)
	}
	if wait := c.first(time.Now()); c.changed.Load() || wait > 0 { // Every is negative: due at once, and nothing to do
		t.Fatalf("changed %t, wait %v", c.changed.Load(), wait)
	}
	c.Note()
	if !c.changed.Load() {
		t.Fatal("a change was not noted")
	}
}
