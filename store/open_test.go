package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
)

func TestSecondOpenSaysThatAnotherEdgewiseRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, quiet())
	begun := time.Now()
	_, err := Open(dir, quiet())
	wantKind(t, err, edgewise.Conflict, dir, "another edgewise runs")
	if waited := time.Since(begun); waited < database.LockTimeout || waited > 20*database.LockTimeout {
		t.Errorf("waited %v", waited)
	}
	_, err = Repair(ctx, dir, quiet())
	wantKind(t, err, edgewise.Conflict, "another edgewise runs")
	closeStore(t, s)
	open(t, dir, quiet())
}

func TestForeignLockOnTheCatalogIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closeStore(t, open(t, dir, quiet()))
	db, err := bbolt.Open(filepath.Join(dir, catalogFile), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	_, err = Open(dir, quiet())
	wantKind(t, err, edgewise.Conflict, catalogFile, "another edgewise runs")
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(database.MetaBucket).Put(database.SchemaKey, []byte("7"))
	})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	_, err = Open(dir, quiet())
	wantKind(t, err, edgewise.Unsupported, "schema 7", "schema 1")
	_, err = Repair(ctx, dir, quiet())
	wantKind(t, err, edgewise.Unsupported, "schema 7", "schema 1")
}

func TestMissingCatalogBesideVersionsIsRefusedAndNothingSwept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	v := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	closeStore(t, s)
	if err := os.Remove(s.root.catalog()); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, quiet())
	wantKind(t, err, edgewise.Corrupt, "missing", "1 versions", "--repair")
	if _, err := os.Stat(s.root.blob(v.Files[0].Digest)); err != nil {
		t.Fatal(err)
	}
}

// damages are ways in which a catalog file goes bad, as functions of its good bytes.
func damages() map[string]func([]byte) []byte {
	overwrite := func(from int, with byte) func([]byte) []byte {
		return func(b []byte) []byte {
			for i := from; i < len(b); i++ {
				b[i] = with
			}
			return b
		}
	}
	return map[string]func([]byte) []byte{
		"empty":             func([]byte) []byte { return nil },
		"cut to one page":   func(b []byte) []byte { return b[:4096] },
		"cut to four pages": func(b []byte) []byte { return b[:4*4096] },
		"zeroed":            overwrite(0, 0),
		"zeroed pages":      overwrite(2*4096, 0),
		"ones in pages":     overwrite(2*4096, 0xff),
		"text":              func([]byte) []byte { return bytes.Repeat([]byte("not a catalog\n"), 5000) },
	}
}

func TestDamagedCatalogIsRefusedAndRepaired(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, quiet())
			mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
			mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
			closeStore(t, s)
			data, err := os.ReadFile(s.root.catalog())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.root.catalog(), damage(data), 0o640); err != nil {
				t.Fatal(err)
			}
			_, err = Open(dir, quiet())
			wantKind(t, err, edgewise.Corrupt, "doctor --repair")
			if _, err := Repair(ctx, dir, quiet()); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, quiet())
			if r, err := s.Record("cat"); err != nil || len(r.Versions) != 2 || r.Label("live") != 2 {
				t.Fatalf("after repair: %+v, %v", r, err)
			}
			wantWhole(t, s)
		})
	}
}

func TestOpenSweepsItsOwnGarbageAndReportsTheRest(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	v := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	closeStore(t, s)
	l := s.root
	orphan := strings.Repeat("ab", 32)
	garbage := []string{
		filepath.Join(l.staging(), strings.Repeat("0f", 16), filesFolder, "x"),
		l.join(blobsFolder, "ab", orphan),
		l.blob(v.Files[0].Digest) + database.PartialSuffix,
		l.snapshot(time.Now()) + database.PartialSuffix,
		l.catalog() + newSuffix,
		filepath.Join(l.version(edgewise.ModelID{Name: "dog", Version: 1}), pendingFile),
	}
	foreign := []string{
		filepath.Join(l.staging(), "notes.txt"),
		l.join(blobsFolder, "README"),
		l.join(blobsFolder, "ab", "short"),
		l.join(blobsFolder, "cd", orphan),
		l.join(modelsFolder, "lost+found", "x"),
		l.join(modelsFolder, "cat", "01", "x"),
		l.join(snapshotsFolder, "mine.db"),
		filepath.Join(l.version(edgewise.ModelID{Name: "cat", Version: 9}), filesFolder, "x"),
	}
	mark := filepath.Join(l.version(v.ID), pendingFile)
	for _, path := range append(append([]string{mark}, garbage...), foreign...) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte("x"), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	o := quiet()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s = open(t, dir, o)
	for _, path := range append([]string{mark}, garbage...) {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	for _, path := range foreign {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s was taken: %v", path, err)
		}
	}
	report, err := s.Check(ctx)
	if err != nil || len(report.Findings) != len(foreign) {
		t.Fatalf("%v, %d findings of %d:\n%s", err, len(report.Findings), len(foreign), report)
	}
	if got := strings.Count(log.String(), "foreign") + strings.Count(log.String(), "not in the catalog"); got != len(foreign) {
		t.Errorf("log speaks of %d foreign things:\n%s", got, log.String())
	}
	if next := mustUpload(t, s, "cat", 0, map[string]string{"m": "2"}); next.ID.Version != 2 {
		t.Errorf("next number %d", next.ID.Version)
	}
	_, err = upload(s, "cat", 9, map[string]string{"m": "2"})
	wantKind(t, err, edgewise.Conflict, "folder that the catalog does not know")
}

func TestVersionWithDamagedFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	v := mustUpload(t, s, "cat", 0, map[string]string{"d/m": "12345"})
	good := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	closeStore(t, s)
	path := filepath.Join(s.root.files(v.ID), "d", "m")
	for name, damage := range map[string]func(){
		"shorter": func() { replace(t, path, "1") },
		"missing": func() { _ = os.Remove(path) },
		"link":    func() { _ = os.Symlink("/etc/hostname", path) },
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(path)
			damage()
			s := open(t, dir, quiet())
			defer closeStore(t, s)
			_, err := s.Dir(v.ID)
			wantKind(t, err, edgewise.Corrupt, `"d/m"`, "--repair")
			if _, err := s.Dir(good.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestOpenWithThousandVersionsIsFast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layThousand(t, dir)
	begun := time.Now()
	s := open(t, dir, quiet())
	took := time.Since(begun)
	if n := len(s.Records()); n != 100 {
		t.Fatalf("%d models", n)
	}
	t.Logf("opened 1,000 versions in %v", took)
	if took > 20*time.Second { // a tenth of a second alone; files that were read, or folders that were synced, would take minutes
		t.Errorf("opening 1,000 versions took %v", took)
	}
	if len(s.damaged) > 0 {
		t.Errorf("%d damaged", len(s.damaged))
	}
}

// layThousand lays out 1,000 versions of 100 models with two files each.
func layThousand(t testing.TB, dir string) {
	t.Helper()
	s := openLazy(t, dir, lazyDisk{})
	for i := range 1000 {
		mustUpload(t, s, fmt.Sprintf("model%d", i%100), 0, map[string]string{"model.onnx": strconv.Itoa(i % 300), "labels.txt": "shared"})
	}
	closeStore(t, s)
}

func BenchmarkOpenThousandVersions(b *testing.B) {
	dir := b.TempDir()
	layThousand(b, dir)
	for b.Loop() {
		closeStore(b, open(b, dir, quiet()))
	}
}

func TestSnapshotIsMadeOnItsOwnAndOldOnesGo(t *testing.T) {
	o := Options{SnapshotEvery: time.Millisecond, Snapshots: 2}
	s := open(t, t.TempDir(), o)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	seen := make(map[time.Time]bool)
	for n := 0; len(seen) < 4; n++ {
		if _, err := upload(s, "cat", 0, map[string]string{"m": strconv.Itoa(n)}); err != nil {
			t.Fatal(err)
		}
		times, err := database.ListSnapshots(s.root.snapshots(), catalogPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if len(times) > 3 { // one more for a moment, before the oldest goes
			t.Fatalf("%d snapshots", len(times))
		}
		for _, at := range times {
			seen[at] = true
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d snapshots in 20 s", len(seen))
		case <-tick.C:
		}
	}
	closeStore(t, s)
	times, err := database.ListSnapshots(s.root.snapshots(), catalogPrefix)
	if err != nil || len(times) != 2 {
		t.Fatalf("%d snapshots are kept, %v", len(times), err)
	}
	c, err := readContents(s.root.snapshot(times[1]))
	if err != nil || len(c.versions) == 0 {
		t.Fatalf("snapshot holds %d versions, %v", len(c.versions), err)
	}
}

// TestCatalogThatCannotGrow lets the system itself refuse bbolt's writes: a child process limits the size of its files.
func TestCatalogThatCannotGrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestChildWithBoundedFiles$")
	child.Env = append(os.Environ(), "EDGEWISE_STORE_CHILD="+dir)
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("survived")) {
		t.Fatalf("child: %v\n%s", err, out)
	}
	s := open(t, dir, quiet())
	wantWhole(t, s)
}

// TestChildWithBoundedFiles is the child of TestCatalogThatCannotGrow; run by itself it has nothing to claim.
func TestChildWithBoundedFiles(t *testing.T) {
	dir := os.Getenv("EDGEWISE_STORE_CHILD")
	if dir == "" {
		return
	}
	s := open(t, dir, quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	info, err := os.Stat(s.root.catalog())
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(info.Size()), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	put := 1
	for ; put < 500; put++ {
		if _, err = upload(s, "cat", 0, map[string]string{"m": strconv.Itoa(put), "long": strconv.Itoa(put)}); err != nil {
			break
		}
	}
	wantKind(t, err, edgewise.Exhausted, "catalog")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if r, _ := s.Record("cat"); len(r.Versions) != put {
		t.Fatalf("%d versions are visible: %d were put", len(r.Versions), put)
	}
	mustUpload(t, s, "cat", 0, map[string]string{"m": "after"})
	wantWhole(t, s)
	closeStore(t, s)
	fmt.Println("survived", put)
}
