package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
)

// broken makes a furnished, closed store and hands its layout to harm.
func broken(t *testing.T, harm func(l layout)) (dir string, before []*edgewise.Record) {
	t.Helper()
	dir = t.TempDir()
	before = furnish(t, dir)
	harm(layout(dir))
	return dir, before
}

func repaired(t *testing.T, dir string) (*Store, *Report) {
	t.Helper()
	r, err := Repair(ctx, dir, quiet())
	if err != nil {
		t.Fatalf("Repair: %v", err)
	}
	s := open(t, dir, quiet())
	wantWhole(t, s)
	return s, r
}

func says(t *testing.T, r *Report, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.String(), p) {
			t.Errorf("report does not say %q:\n%s", p, r)
		}
	}
}

func cat(n int64) edgewise.ModelID { return edgewise.ModelID{Name: "cat", Version: n} }

func TestRepairOfAWholeStoreChangesNothing(t *testing.T) {
	dir, before := broken(t, func(layout) {})
	s, r := repaired(t, dir)
	if !r.OK() || r.Versions != 4 {
		t.Fatalf("report:\n%s", r)
	}
	if diff := cmp.Diff(before, s.Records()); diff != "" {
		t.Fatal(diff)
	}
}

func TestRepairMendsWhatHasAnotherCopy(t *testing.T) {
	cases := []struct {
		name string
		harm func(l layout)
		says string
	}{
		{"file is missing", func(l layout) { _ = os.Remove(filepath.Join(l.files(cat(1)), "model.onnx")) }, "made again from its blob"},
		{
			"file was replaced", func(l layout) { replace(t, filepath.Join(l.files(cat(3)), "deep/er/x.bin"), "only hers") },
			"made again from its blob",
		},
		{"folder of files is missing", func(l layout) { _ = os.RemoveAll(l.files(cat(3))) }, "made again from its blob"},
		{"version folder is missing", func(l layout) { _ = os.RemoveAll(l.version(cat(3))) }, "written again from the catalog"},
		{"model folder is missing", func(l layout) { _ = os.RemoveAll(l.model("cat")) }, "written again from the catalog"},
		{
			"manifest is missing", func(l layout) { _ = os.Remove(filepath.Join(l.version(cat(2)), manifestFile)) },
			"written again from the catalog",
		},
		{"manifest was altered", func(l layout) {
			path := filepath.Join(l.version(cat(2)), manifestFile)
			text, _ := os.ReadFile(path)
			overwrite(t, path, strings.Replace(string(text), "onnxruntime", "xnnxruntime", 1))
		}, "written again from the catalog"},
		{"blob is missing", func(l layout) { _ = os.Remove(l.blob(hashOf("two"))) }, "made again from the version's folder"},
		{"blob was replaced", func(l layout) { replace(t, l.blob(hashOf("shared")), "shapes") }, "made again from the version's folder"},
		{"extra file", func(l layout) { replace(t, filepath.Join(l.files(cat(1)), "extra.so"), "x") }, "moved to quarantine"},
		{"counts of references", func(l layout) {
			s := openLazy(t, string(l), lazyDisk{})
			if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(blobsBucket).Delete([]byte(hashOf("shared"))) }); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
		}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir, before := broken(t, c.harm)
			s := open(t, dir, quiet())
			report, err := s.Verify(ctx)
			if err != nil || report.OK() {
				t.Fatalf("Verify finds nothing wrong: %v", err)
			}
			closeStore(t, s)
			s, r := repaired(t, dir)
			says(t, r, c.says)
			if diff := cmp.Diff(before, s.Records()); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestRepairQuarantinesWhatIsSpoiltInEveryCopy(t *testing.T) {
	dir, _ := broken(t, func(l layout) { overwrite(t, l.blob(hashOf("two")), "TWO") })
	s, r := repaired(t, dir)
	says(t, r, `model "cat" version 2`, `"model.onnx" has SHA-256`, "moved to quarantine",
		`label "live" pointed to version 2, which is lost -> now points to version 3`)
	rec, err := s.Record("cat")
	if err != nil || rec.Version(2) != nil || rec.Version(1) == nil || rec.Label("live") != 3 || rec.Label("back") != 1 {
		t.Fatalf("record %+v, %v", rec, err)
	}
	found, err := filepath.Glob(filepath.Join(dir, database.QuarantineFolder, "*", modelsFolder, "cat", "2", "*"))
	if err != nil || len(found) != 3 {
		t.Fatalf("quarantine holds %v, %v", found, err)
	}
	reason, err := os.ReadFile(filepath.Join(filepath.Dir(found[0]), reasonFile))
	if err != nil || !strings.Contains(string(reason), "model.onnx") {
		t.Fatalf("reason %q, %v", reason, err)
	}
	if v := mustUpload(t, s, "cat", 2, map[string]string{"model.onnx": "two"}); v.ID.Version != 2 {
		t.Fatalf("the lost version came back as %d", v.ID.Version)
	}
	wantWhole(t, s)
}

func TestRepairWithoutCatalogUsesTheNewestSnapshot(t *testing.T) {
	dir, before := broken(t, func(l layout) {
		s := openLazy(t, string(l), lazyDisk{})
		if err := s.SetWanted(ctx, "dog", true); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		mustUpload(t, s, "newer", 3, map[string]string{"m": "x"})
		if err := s.DeleteVersion(ctx, cat(3)); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		replace(t, l.catalog(), "")
		replace(t, l.snapshot(time.Now().Add(time.Hour)), "newest and unreadable")
	})
	s, r := repaired(t, dir)
	says(t, r, "snapshots/catalog-", "snapshot cannot be read", "taken as deleted",
		`model "newer": its labels are not known -> label live points to version 3`)
	dog, _ := s.Record("dog")
	newer, _ := s.Record("newer")
	got, _ := s.Record("cat")
	if !dog.Wanted || !newer.Wanted || newer.Label("live") != 3 || len(got.Versions) != 2 {
		t.Fatalf("dog %+v newer %+v cat %+v", dog, newer, got)
	}
	if diff := cmp.Diff(before[0].Labels, got.Labels); diff != "" {
		t.Fatal(diff)
	}
	if v := mustUpload(t, s, "cat", 0, map[string]string{"m": "4"}); v.ID.Version != 4 {
		t.Fatalf("number %d after repair", v.ID.Version)
	}
}

func TestRepairDoesNotShowUnfinishedUploads(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dir, _ := broken(t, func(l layout) {
			half := l.version(cat(9))
			if err := os.CopyFS(half, os.DirFS(l.version(cat(1)))); err != nil {
				t.Fatal(err)
			}
			replace(t, filepath.Join(half, pendingFile), "")
			if lost {
				_ = os.Remove(l.catalog())
			}
		})
		s, r := repaired(t, dir)
		says(t, r, `"cat" version 9`)
		if rec, _ := s.Record("cat"); rec.Version(9) != nil {
			t.Fatal("an unfinished upload is visible")
		}
	}
}

func TestRepairTakesInFoldersThatAnOldCatalogDoesNotName(t *testing.T) {
	dir, _ := broken(t, func(l layout) {
		old, err := os.ReadFile(l.catalog())
		if err != nil {
			t.Fatal(err)
		}
		s := openLazy(t, string(l), lazyDisk{})
		mustUpload(t, s, "cat", 4, map[string]string{"m": "four"})
		closeStore(t, s)
		overwrite(t, l.catalog(), string(old)) // somebody put a backup back
	})
	s := open(t, dir, quiet())
	if _, err := s.Dir(cat(4)); err == nil {
		t.Fatal("the old catalog names the version")
	}
	closeStore(t, s)
	s, r := repaired(t, dir)
	says(t, r, "taken into the catalog")
	if got := read(t, s, cat(4), "m"); got != "four" {
		t.Fatalf("read %q", got)
	}
}

func TestRepairRefusesAFolderThatIsNotThere(t *testing.T) {
	_, err := Repair(ctx, filepath.Join(t.TempDir(), "none"), quiet())
	wantKind(t, err, edgewise.NotFound, "none")
}

func TestReportIsJSON(t *testing.T) {
	dir, _ := broken(t, func(l layout) { _ = os.Remove(l.blob(hashOf("two"))) })
	_, r := repaired(t, dir)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*r, back); diff != "" || len(back.Findings) != 1 {
		t.Fatal(diff)
	}
}

func TestUploadReplacesABlobThatTheDiskSpoilt(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "good"})
	overwrite(t, s.root.blob(hashOf("good")), "evil")
	v := mustUpload(t, s, "cat", 0, map[string]string{"m": "good"})
	if got := read(t, s, v.ID, "m"); got != "good" {
		t.Fatalf("the new version reads %q", got)
	}
}

func FuzzManifest(f *testing.F) {
	v := &edgewise.Version{ID: cat(1), Model: model("cat"), Files: []edgewise.File{{Path: "m", Size: 1, Digest: hashOf("1")}}, Size: 1}
	text, err := encodeManifest(v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":1,"id":{"name":"cat","version":1},"files":[{"path":"../../x"}],"model":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decodeManifest(data, cat(1))
		if err == nil && checkStored(v) != nil {
			t.Fatalf("accepted a version that cannot be stored: %+v", v)
		}
	})
}
