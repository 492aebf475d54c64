package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// rename renames a model, and rewrites the name in a labels.txt.
func rename(s *Store, name, to string) error {
	return s.Rename(ctx, name, to, func(v *edgewise.Version, dir string) (Rewritten, error) {
		changed := Rewritten{Model: model(to)}
		if _, err := os.Stat(filepath.Join(dir, "labels.txt")); err == nil {
			changed.Drop, changed.Path, changed.Data = "labels.txt", "names/labels.txt", []byte("of "+to)
		}
		return changed, nil
	})
}

func mustRename(t *testing.T, s *Store, name, to string) {
	t.Helper()
	if err := rename(s, name, to); err != nil {
		t.Fatalf("rename %s to %s: %v", name, to, err)
	}
}

func TestRenamedModelKeepsNumbersLabelsFilesAndTimes(t *testing.T) {
	dir := t.TempDir()
	before := furnish(t, dir)[0]
	s := open(t, dir, quiet())
	mustRename(t, s, "cat", "kitten")
	if _, err := s.Record("cat"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Fatalf("the old name: %v", err)
	}
	closeStore(t, s)
	s = open(t, dir, quiet())
	wantWhole(t, s)
	after, err := s.Record("kitten")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Labels, after.Labels); diff != "" || after.Wanted != before.Wanted {
		t.Fatalf("labels and desired state: %v %s", after.Wanted, diff)
	}
	ignored := cmpopts.IgnoreFields(edgewise.Version{}, "Digest", "Files", "Size", "Model")
	want := make([]*edgewise.Version, len(before.Versions))
	for i, v := range before.Versions {
		moved := *v
		moved.ID.Name = "kitten"
		want[i] = &moved
	}
	if diff := cmp.Diff(want, after.Versions, ignored); diff != "" {
		t.Fatalf("versions:\n%s", diff)
	}
	if got := read(t, s, edgewise.ModelID{Name: "kitten", Version: 3}, "deep/er/x.bin"); got != "only here" {
		t.Fatalf("a file that stays holds %q", got)
	}
	if got := read(t, s, edgewise.ModelID{Name: "kitten", Version: 1}, "names/labels.txt"); got != "of kitten" {
		t.Fatalf("a file that was rewritten holds %q", got)
	}
}

func TestNumbersOfARenamedModelAreNotGivenAgain(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	for range 3 {
		mustUpload(t, s, "cat", 0, map[string]string{"a": "1"})
	}
	if err := s.DeleteVersion(ctx, edgewise.ModelID{Name: "cat", Version: 3}); err != nil {
		t.Fatal(err)
	}
	mustRename(t, s, "cat", "dog")
	if v := mustUpload(t, s, "dog", 0, map[string]string{"a": "2"}); v.ID.Version != 4 {
		t.Errorf("the model goes on with version %d: want 4, behind the one that was deleted", v.ID.Version)
	}
	if v := mustUpload(t, s, "cat", 0, map[string]string{"a": "3"}); v.ID.Version != 4 {
		t.Errorf("another model of the old name begins with version %d: want 4", v.ID.Version)
	}
	_, err := upload(s, "cat", 1, map[string]string{"a": "4"})
	wantKind(t, err, edgewise.Conflict, `"cat" version 1`, "renamed")
	wantWhole(t, s)
}

func TestModelsGetTheirOldNamesBackAndNoOtherNumbers(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"a": "1"})
	mustRename(t, s, "cat", "dog")
	mustRename(t, s, "dog", "wolf")
	mustRename(t, s, "wolf", "cat")
	wantWhole(t, s)
	mustUpload(t, s, "other", 0, map[string]string{"a": "2"})
	err := rename(s, "other", "dog")
	wantKind(t, err, edgewise.Conflict, `"dog" version 1`)
	wantKind(t, rename(s, "other", "cat"), edgewise.Exists, `"cat" exists`)
	wantKind(t, rename(s, "gone", "new"), edgewise.NotFound)
	wantKind(t, rename(s, "cat", "../x"), edgewise.Invalid)
	if err := s.DeleteModel(ctx, "cat"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, rename(s, "other", "cat"), edgewise.Conflict, `"cat" version 1`)
	wantWhole(t, s)
}

func TestRenamingsAreThoseInForce(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	for range 2 {
		mustUpload(t, s, "cat", 0, map[string]string{"a": "1"})
	}
	mustRename(t, s, "cat", "dog")
	mustRename(t, s, "dog", "wolf")
	got, err := s.Renamings()
	if err != nil {
		t.Fatal(err)
	}
	times := cmpopts.IgnoreTypes(time.Time{})
	if diff := cmp.Diff([]Renaming{{From: "cat", To: "dog"}, {From: "dog", To: "wolf"}}, got, times); diff != "" {
		t.Fatal(diff)
	}
	mustRename(t, s, "wolf", "cat")
	if got, err = s.Renamings(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Renaming{{From: "dog", To: "wolf"}, {From: "wolf", To: "cat"}}, got, times); diff != "" {
		t.Fatal(diff)
	}
}

func TestRenamingSurvivesARepairWithoutCatalog(t *testing.T) {
	dir := t.TempDir()
	furnish(t, dir)
	s := open(t, dir, quiet())
	mustRename(t, s, "cat", "kitten")
	closeStore(t, s)
	if err := os.Remove(filepath.Join(dir, catalogFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(ctx, dir, quiet()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, quiet())
	wantWhole(t, s)
	if r, err := s.Record("kitten"); err != nil || len(r.Versions) != 3 {
		t.Fatalf("after the repair: %+v, %v", r, err)
	}
	if _, err := s.Record("cat"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Fatalf("the old name: %v", err)
	}
}
