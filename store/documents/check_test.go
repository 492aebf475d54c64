package documents

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
)

// even refuses documents of an odd length.
func even(bucket, key string, value []byte) error {
	if len(value)%2 != 0 {
		return fmt.Errorf("document %q of %s is odd", key, bucket)
	}
	return nil
}

// fill stores documents and makes a snapshot.
func fill(t *testing.T, dir string, values map[string]string) {
	t.Helper()
	d, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	err = d.Update(func(tx edgewise.DocumentsTx) error {
		for key, value := range values {
			if err := tx.Put("users", key, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, d.copies.Copy(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

func document(t *testing.T, dir, key string) string {
	t.Helper()
	d := mustOpen(t, dir)
	defer func() { _ = d.Close() }()
	var value string
	_ = d.View(func(tx edgewise.DocumentsTx) error {
		value = string(tx.Get("users", key))
		return nil
	})
	return value
}

func wantFindings(t *testing.T, found []database.Finding, err error, parts ...string) {
	t.Helper()
	if err != nil || len(found) != len(parts) {
		t.Fatalf("found %v, %v; want %d findings", found, err, len(parts))
	}
	for i, part := range parts {
		if text := found[i].String(); !strings.Contains(text, part) || !strings.HasPrefix(text, fileName) {
			t.Errorf("finding %q, want %q in it", text, part)
		}
	}
}

func TestADocumentThatIsRefusedIsFoundAndRemoved(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, map[string]string{"good": "{}", "bad": "{", "worse": "???"})
	found, err := Examine(dir, even)
	wantFindings(t, found, err, `"bad" of users is odd`, `"worse" of users is odd`)
	if document(t, dir, "bad") != "{" {
		t.Error("the check changed something")
	}
	found, err = Repair(dir, even)
	wantFindings(t, found, err, "removed; the file as it was is quarantine/", "removed")
	if document(t, dir, "bad") != "" || document(t, dir, "good") != "{}" {
		t.Error("not the refused documents alone are gone")
	}
	kept, _ := filepath.Glob(filepath.Join(dir, database.QuarantineFolder, "*", fileName))
	if len(kept) != 1 {
		t.Fatalf("%d copies are in quarantine", len(kept))
	}
	if info, err := os.Stat(kept[0]); err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("the copy is %v, %v: want it for its owner alone", info.Mode(), err)
	}
	found, err = Examine(dir, even)
	wantFindings(t, found, err)
}

// spoilPages writes over the pages of a file behind its two heads.
func spoilPages(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	copy(data[2*page:], bytes.Repeat([]byte{0xa5}, len(data)-2*page))
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedFileOfDocumentsIsPutBackFromItsSnapshot(t *testing.T) {
	for name, test := range map[string]struct {
		snapshots int // that can be read, of three
		want      string
		parts     []string
	}{
		"the newest":       {3, "third!", []string{"is in its place"}},
		"an older one":     {2, "second", []string{"snapshot cannot be read", "is in its place"}},
		"none can be read": {0, "", []string{"cannot be read", "cannot be read", "cannot be read", "begins without accounts"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, value := range []string{"first!", "second", "third!"} {
				fill(t, dir, map[string]string{"a": value})
			}
			folder := filepath.Join(dir, folderName)
			times, err := database.ListSnapshots(folder, prefix)
			if err != nil || len(times) != 3 {
				t.Fatal(times, err)
			}
			for _, at := range times[test.snapshots:] {
				spoilPages(t, database.SnapshotPath(folder, prefix, at))
			}
			spoilPages(t, filepath.Join(dir, fileName))
			found, err := Examine(dir, even)
			wantFindings(t, found, err, "damaged")
			found, err = Repair(dir, even)
			wantFindings(t, found, err, test.parts...)
			if got := document(t, dir, "a"); got != test.want {
				t.Errorf("the document is %q, want %q", got, test.want)
			}
			if kept, _ := filepath.Glob(filepath.Join(dir, database.QuarantineFolder, "*", fileName)); len(kept) != 1 {
				t.Errorf("%d copies are in quarantine", len(kept))
			}
		})
	}
}

func TestDocumentsInUseAreNotRepaired(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir)
	if _, err := Examine(dir, even); edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("check: %v", err)
	}
	if _, err := Repair(dir, even); edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("repair: %v", err)
	}
}

func TestAFolderWithoutDocumentsIsWhole(t *testing.T) {
	found, err := Examine(t.TempDir(), even)
	wantFindings(t, found, err)
	found, err = Repair(t.TempDir(), even)
	wantFindings(t, found, err)
}

func TestSnapshotsOfDocumentsAreForTheirOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, map[string]string{"a": "secret"})
	info, err := os.Stat(filepath.Join(dir, folderName))
	if err != nil || info.Mode().Perm() != folderMode {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	partial := database.SnapshotPath(filepath.Join(dir, folderName), prefix, time.Now()) + database.PartialSuffix
	if err := os.WriteFile(partial, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
	if _, err := os.Stat(partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a snapshot that was interrupted is still there: %v", err)
	}
}
