package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

func TestVersionReadsBackAfterReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	put := mustUpload(t, s, "cat", 0, map[string]string{"model.onnx": "weights", "deep/labels.txt": "a\nb"})
	closeStore(t, s)
	s = open(t, dir, quiet())
	r, err := s.Record("cat")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(put, r.Version(1)); diff != "" {
		t.Fatal(diff)
	}
	if put.Size != 10 || put.Files[0].Path != "deep/labels.txt" || put.Files[1].Digest != hashOf("weights") {
		t.Fatalf("got %+v", put)
	}
	if got := read(t, s, put.ID, "deep/labels.txt"); got != "a\nb" {
		t.Fatalf("read %q", got)
	}
	wantWhole(t, s)
}

func TestDigestDependsOnDeclarationAndFilesOnly(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	a := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	again := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	other := mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
	renamed := mustUpload(t, s, "cat", 0, map[string]string{"n": "1"})
	if a.Digest != again.Digest || a.Digest == other.Digest || a.Digest == renamed.Digest {
		t.Fatalf("digests %s %s %s %s", a.Digest, again.Digest, other.Digest, renamed.Digest)
	}
}

func TestEqualFilesAreStoredOnce(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	for i := range 3 {
		mustUpload(t, s, "cat", 0, map[string]string{"shared": pattern(5000), "twin": pattern(5000), "own": fmt.Sprint(i)})
	}
	u, err := s.Usage()
	if err != nil || u.Blobs != 4 || u.Bytes != 5003 || u.Free <= 0 || u.Total <= u.Free {
		t.Fatalf("usage %+v, %v", u, err)
	}
	for n := range int64(3) {
		path := filepath.Join(s.root.files(edgewise.ModelID{Name: "cat", Version: n + 1}), "twin")
		if !disk.SameFile(path, s.root.blob(hashOf(pattern(5000)))) {
			t.Errorf("%s is not the blob", path)
		}
	}
	if err := s.DeleteModel(ctx, "cat"); err != nil {
		t.Fatal(err)
	}
	if u, err = s.Usage(); err != nil || u.Blobs != 0 || u.Bytes != 0 {
		t.Fatalf("after deletion: %+v, %v", u, err)
	}
	wantWhole(t, s)
}

func TestNumbersAreNeverUsedAgain(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	files := map[string]string{"m": "1"}
	mustUpload(t, s, "cat", 4, files)
	if v := mustUpload(t, s, "cat", 0, files); v.ID.Version != 5 {
		t.Fatalf("number %d after 4", v.ID.Version)
	}
	if v := mustUpload(t, s, "cat", 2, files); v.ID.Version != 2 {
		t.Fatalf("a lower number that was never used became %d", v.ID.Version)
	}
	if err := s.DeleteVersion(ctx, edgewise.ModelID{Name: "cat", Version: 5}); err != nil {
		t.Fatal(err)
	}
	_, err := upload(s, "cat", 5, files)
	wantKind(t, err, edgewise.Conflict, "not used again")
	_, err = upload(s, "cat", 4, files)
	wantKind(t, err, edgewise.Exists, `"cat" version 4`)
	if err := s.DeleteModel(ctx, "cat"); err != nil {
		t.Fatal(err)
	}
	if v := mustUpload(t, s, "cat", 0, files); v.ID.Version != 6 {
		t.Fatalf("number %d after the model was deleted", v.ID.Version)
	}
	err = s.update("test", edgewise.ModelID{Name: "cat"}, func(tx *bbolt.Tx) error { return raiseNumber(tx, "cat", math.MaxInt64) })
	if err != nil { // as a release without a bound could
		t.Fatal(err)
	}
	_, err = upload(s, "cat", 0, files)
	wantKind(t, err, edgewise.Conflict, "last number")
}

func TestRollbackWalksBackOverDeletedVersions(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	for n := range 4 {
		mustUpload(t, s, "cat", 0, map[string]string{"m": fmt.Sprint(n)})
		mustLabel(t, s, "cat", "live", int64(n+1))
	}
	if err := s.DeleteVersion(ctx, edgewise.ModelID{Name: "cat", Version: 3}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{2, 1} {
		if l, err := s.Rollback(ctx, "cat", "live"); err != nil || l.Version != want {
			t.Fatalf("rolled back to %+v, %v: want %d", l, err, want)
		}
	}
	_, err := s.Rollback(ctx, "cat", "live")
	wantKind(t, err, edgewise.Conflict, `label "live"`, `model "cat"`)
}

func TestLabelRemembersBoundedHistory(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
	for i := range int64(MaxLabelHistory + 5) {
		mustLabel(t, s, "cat", "live", 1+i%2)
	}
	r, _ := s.Record("cat")
	if n := len(r.Labels[0].History); n != MaxLabelHistory {
		t.Fatalf("history of %d", n)
	}
	same, err := s.SetLabel(ctx, "cat", "live", r.Labels[0].Version)
	if diff := cmp.Diff(r.Labels[0], same); err != nil || diff != "" {
		t.Fatalf("setting a label to where it is changed it: %v\n%s", err, diff)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	s := openLazy(t, t.TempDir(), lazyDisk{})
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	for i := range MaxLabels {
		mustLabel(t, s, "cat", fmt.Sprintf("l%d", i), 1)
	}
	_, err := s.SetLabel(ctx, "cat", "more", 1)
	wantKind(t, err, edgewise.TooLarge, "64 labels")
}

func TestRefusedChangesSayWhy(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	mustLabel(t, s, "cat", "live", 1)
	mustLabel(t, s, "cat", "beta", 1)
	cat1 := edgewise.ModelID{Name: "cat", Version: 1}
	tables := []struct {
		name string
		run  func() error
		kind edgewise.Kind
		says string
	}{
		{"delete a labelled version", func() error { return s.DeleteVersion(ctx, cat1) }, edgewise.Conflict, "beta, live"},
		{
			"delete an absent version", func() error { return s.DeleteVersion(ctx, edgewise.ModelID{Name: "cat", Version: 9}) },
			edgewise.NotFound, "no version 9",
		},
		{"delete an absent model", func() error { return s.DeleteModel(ctx, "dog") }, edgewise.NotFound, `"dog"`},
		{"label an absent version", func() error { _, err := s.SetLabel(ctx, "cat", "live", 2); return err }, edgewise.NotFound, "no version 2"},
		{"label an absent model", func() error { _, err := s.SetLabel(ctx, "dog", "live", 1); return err }, edgewise.NotFound, `"dog"`},
		{"label like a number", func() error { _, err := s.SetLabel(ctx, "cat", "12", 1); return err }, edgewise.Invalid, "number"},
		{"label with a slash", func() error { _, err := s.SetLabel(ctx, "cat", "a/b", 1); return err }, edgewise.Invalid, "label"},
		{"remove an absent label", func() error { return s.RemoveLabel(ctx, "cat", "gone") }, edgewise.NotFound, `"gone"`},
		{"roll back an absent label", func() error { _, err := s.Rollback(ctx, "cat", "gone"); return err }, edgewise.NotFound, `"gone"`},
		{"want an absent model", func() error { return s.SetWanted(ctx, "dog", true) }, edgewise.NotFound, `"dog"`},
		{"folder of an absent version", func() error {
			_,
				err := s.Dir(edgewise.ModelID{Name: "cat", Version: 2})
			return err
		}, edgewise.NotFound, "no version 2"},
		{"record of an absent model", func() error { _, err := s.Record("dog"); return err }, edgewise.NotFound, `"dog"`},
	}
	for _, c := range tables {
		t.Run(c.name, func(t *testing.T) { wantKind(t, c.run(), c.kind, c.says) })
	}
}

func TestALabelSaysThatTheModelIsToBeServed(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
	for _, step := range []struct {
		name string
		move func() error
	}{
		{"a new label", func() error { _, err := s.SetLabel(ctx, "cat", "live", 1); return err }},
		{"a label that moves", func() error { _, err := s.SetLabel(ctx, "cat", "live", 2); return err }},
		{"a label where it is", func() error { _, err := s.SetLabel(ctx, "cat", "live", 2); return err }},
		{"a label that rolls back", func() error { _, err := s.Rollback(ctx, "cat", "live"); return err }},
	} {
		if err := errors.Join(s.SetWanted(ctx, "cat", false), step.move()); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.Record("cat"); !r.Wanted {
			t.Errorf("%s: the model is not to be served", step.name)
		}
	}
}

func TestWishAndLabelsGoWithTheLastVersion(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	mustLabel(t, s, "cat", "live", 1)
	if err := s.SetWanted(ctx, "cat", true); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveLabel(ctx, "cat", "live"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteVersion(ctx, edgewise.ModelID{Name: "cat", Version: 1}); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Records()); n != 0 {
		t.Fatalf("%d records", n)
	}
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	if r, _ := s.Record("cat"); r.Wanted || len(r.Labels) > 0 {
		t.Fatalf("came back as %+v", r)
	}
}

func TestRacingUploadsOfOneVersionHaveOneWinner(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	const racers = 6
	errs := make([]error, racers)
	var wait sync.WaitGroup
	for i := range racers {
		wait.Go(func() { _, errs[i] = upload(s, "cat", 1, map[string]string{"m": fmt.Sprint(i), "shared": "x"}) })
	}
	wait.Wait()
	winners := 0
	for i, err := range errs {
		if err != nil {
			wantKind(t, err, edgewise.Exists, `"cat" version 1`)
			continue
		}
		winners++
		if got := read(t, s, edgewise.ModelID{Name: "cat", Version: 1}, "m"); got != fmt.Sprint(i) {
			t.Errorf("racer %d won and %q is stored", i, got)
		}
	}
	if winners != 1 {
		t.Fatalf("%d winners", winners)
	}
	wantWhole(t, s)
}

func TestConcurrentChangesKeepTheStoreWhole(t *testing.T) {
	s := openLazy(t, t.TempDir(), lazyDisk{})
	var wait sync.WaitGroup
	fail := make(chan error, 100)
	for i := range 6 {
		wait.Go(func() {
			name := fmt.Sprintf("m%d", i%3)
			for n := range 6 {
				v, err := upload(s, name, 0, map[string]string{"shared": pattern(100), "own": fmt.Sprint(n % 2)})
				if err == nil {
					_, err = s.SetLabel(ctx, name, "live", v.ID.Version)
				}
				if err == nil && n%2 == 1 {
					err = s.DeleteVersion(ctx, v.ID)
				}
				if err != nil && edgewise.KindOf(err) != edgewise.Conflict {
					fail <- err
				}
			}
		})
	}
	wait.Go(func() {
		for range 20 {
			if _, err := s.Check(ctx); err != nil {
				fail <- err
			}
			if err := s.Snapshot(); err != nil {
				fail <- err
			}
		}
	})
	wait.Wait()
	close(fail)
	for err := range fail {
		t.Error(err)
	}
	wantWhole(t, s)
}

func TestRecordsDoNotChangeInTheReadersHands(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	before := s.Records()
	mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
	mustUpload(t, s, "ant", 0, map[string]string{"m": "2"})
	if len(before) != 1 || len(before[0].Versions) != 1 {
		t.Fatalf("records changed: %+v", before[0])
	}
	if now := s.Records(); now[0].Name != "ant" || now[1].Name != "cat" {
		t.Fatalf("records are not sorted")
	}
}

func TestFilesAreForOwnerAndGroupOnly(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"d/m": "1"})
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range append(s.root.folders(), s.root.catalog()) {
		err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o027 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(s.root.blob(hashOf("1")))
	if err != nil || info.Mode().Perm()&0o222 != 0 {
		t.Fatalf("blob has mode %v, %v", info.Mode(), err)
	}
}

func TestClosedStoreRefusesChanges(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	g, err := s.Begin(ctx, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Add(ctx, "m", -1, strings.NewReader("2")); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	closeStore(t, s)
	_, err = s.Put(ctx, g, edgewise.Version{ID: edgewise.ModelID{Name: "cat"}, Model: model("cat")})
	wantKind(t, err, edgewise.Unavailable, "closed")
	_, usage := s.Usage()
	_, check := s.Check(ctx)
	_, verify := s.Verify(ctx)
	for _, err := range []error{s.DeleteModel(ctx, "cat"), s.Snapshot(), usage, check, verify} {
		wantKind(t, err, edgewise.Unavailable)
	}
	if err := g.Discard(); err != nil {
		t.Fatal(err)
	}
}

func TestCatalogThatCannotBeReadBackTakesNoMoreChanges(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	s.broken = errors.New("disk is gone")
	_, err := upload(s, "cat", 0, map[string]string{"m": "1"})
	wantKind(t, err, edgewise.Unavailable, "disk is gone", "restart")
}

func TestNoUploadUsesUpTheNumbersOfAModel(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	for _, number := range []int64{math.MaxInt64, MaxVersion + 1, -1} {
		_, err := upload(s, "cat", number, map[string]string{"m": "x"})
		wantKind(t, err, edgewise.Invalid, strconv.FormatInt(number, 10), "cat")
	}
	mustUpload(t, s, "cat", MaxVersion, map[string]string{"m": "x"})
	if v := mustUpload(t, s, "cat", 0, map[string]string{"m": "y"}); v.ID.Version != MaxVersion+1 {
		t.Errorf("the next version has the number %d", v.ID.Version)
	}
}
