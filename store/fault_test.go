package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// lazyDisk is the real disk without syncs, which tests that lose no power can do without.
type lazyDisk struct{ osDevice }

func (lazyDisk) SyncDir(string) error { return nil }

func (d lazyDisk) Create(p string) (disk.File, error) {
	f, err := d.osDevice.Create(p)
	return lazyFile{f}, err
}

type lazyFile struct{ disk.File }

func (lazyFile) Sync() error { return nil }

// openLazy opens a store that syncs nothing.
func openLazy(t testing.TB, dir string, d device) *Store {
	t.Helper()
	o := quiet()
	o.disk = d
	s := open(t, dir, o)
	s.db.NoSync = true
	return s
}

// faultDisk is a disk with room for failAt-1 more operations.
type faultDisk struct {
	lazyDisk
	mu          sync.Mutex
	ops         int
	failAt      int    // the operation that fails; 0: none
	stay        bool   // every later one that needs room fails too
	afterCommit bool   // only commits count, and a failing one has reached the file all the same
	failed      string // the first operation that failed
}

func (d *faultDisk) step(what string, frees bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.afterCommit && what != "commit" {
		return nil
	}
	d.ops++
	if d.failAt == 0 || d.ops < d.failAt || (d.ops > d.failAt && (!d.stay || frees)) {
		return nil
	}
	if d.failed == "" {
		d.failed = what
	}
	return &os.PathError{Op: what, Path: "/secret/place", Err: syscall.ENOSPC}
}

func (d *faultDisk) Mkdir(p string) error {
	if err := d.step("mkdir", false); err != nil {
		return err
	}
	return d.lazyDisk.Mkdir(p)
}

func (d *faultDisk) Link(a, b string) error {
	if err := d.step("link", false); err != nil {
		return err
	}
	return d.lazyDisk.Link(a, b)
}

func (d *faultDisk) Rename(a, b string) error {
	if err := d.step("rename", false); err != nil {
		return err
	}
	return d.lazyDisk.Rename(a, b)
}

func (d *faultDisk) Remove(p string) error {
	if err := d.step("remove", true); err != nil {
		return err
	}
	return d.lazyDisk.Remove(p)
}

func (d *faultDisk) RemoveAll(p string) error {
	if err := d.step("removeall", true); err != nil {
		return err
	}
	return d.lazyDisk.RemoveAll(p)
}

func (d *faultDisk) SyncDir(p string) error {
	if err := d.step("syncdir", false); err != nil {
		return err
	}
	return d.lazyDisk.SyncDir(p)
}

func (d *faultDisk) Commit(tx *bbolt.Tx) error {
	err := d.step("commit", false)
	if err != nil && !d.afterCommit {
		return err
	}
	return errors.Join(err, d.lazyDisk.Commit(tx))
}

func (d *faultDisk) Create(p string) (disk.File, error) {
	if err := d.step("create", false); err != nil {
		return nil, err
	}
	f, err := d.lazyDisk.Create(p)
	return &faultFile{f, d}, err
}

type faultFile struct {
	disk.File
	d *faultDisk
}

// Write fails as a full disk does: after the first half.
func (f *faultFile) Write(p []byte) (int, error) {
	err := f.d.step("write", false)
	if err == nil {
		return f.File.Write(p)
	}
	n, e := f.File.Write(p[:len(p)/2])
	return n, errors.Join(err, e)
}

func (f *faultFile) Sync() error {
	if err := f.d.step("sync", false); err != nil {
		return err
	}
	return f.File.Sync()
}

// change is an operation whose every disk operation is made to fail in turn.
type change struct {
	name string
	run  func(s *Store) error
}

var ctx = context.Background()

func changes() []change {
	id := func(name string, n int64) edgewise.ModelID { return edgewise.ModelID{Name: name, Version: n} }
	return []change{
		{"upload of a new model", func(s *Store) error {
			files := map[string]string{"a.bin": "own", "d/e/b.bin": "shared", "d/c.bin": pattern(3000), "d/same.bin": "own"}
			_, err := upload(s, "fresh", 0, files)
			return err
		}},
		{"upload of a version", func(s *Store) error {
			_, err := upload(s, "cat", 0, map[string]string{"model.onnx": "four", "labels.txt": "shared"})
			return err
		}},
		{"upload of a version with files of another", func(s *Store) error {
			g, err := s.Begin(ctx, -1)
			if err != nil {
				return err
			}
			defer func() { _ = g.Discard() }()
			base := id("cat", 3)
			for _, f := range s.view.Load().version(base).Files {
				if err := g.AddStored(f); err != nil {
					return err
				}
			}
			_, err = s.Put(ctx, g, edgewise.Version{ID: id("cat", 0), Model: &edgewise.Model{Name: "cat"}})
			return err
		}},
		{"import", func(s *Store) error { return bring(s, "far", "near") }},
		{"promote", func(s *Store) error { _, err := s.SetLabel(ctx, "cat", "live", 1); return err }},
		{"promote where it is", func(s *Store) error { _, err := s.SetLabel(ctx, "cat", "live", 2); return err }},
		{"rollback", func(s *Store) error { _, err := s.Rollback(ctx, "cat", "back"); return err }},
		{"remove label", func(s *Store) error { return s.RemoveLabel(ctx, "cat", "back") }},
		{"want", func(s *Store) error { return s.SetWanted(ctx, "cat", true) }},
		{"delete version", func(s *Store) error { return s.DeleteVersion(ctx, id("cat", 3)) }},
		{"delete last version", func(s *Store) error { return s.DeleteVersion(ctx, id("dog", 7)) }},
		{"delete model", func(s *Store) error { return s.DeleteModel(ctx, "cat") }},
		{"rename", func(s *Store) error { return rename(s, "cat", "kitten") }},
	}
}

// furnish makes the store that every fault meets.
func furnish(t *testing.T, dir string) []*edgewise.Record {
	t.Helper()
	s := openLazy(t, dir, lazyDisk{})
	mustUpload(t, s, "cat", 0, map[string]string{"model.onnx": "one", "labels.txt": "shared"})
	mustUpload(t, s, "cat", 0, map[string]string{"model.onnx": "two", "labels.txt": "shared"})
	mustUpload(t, s, "cat", 0, map[string]string{"model.onnx": "gone", "deep/er/x.bin": "only here"})
	mustUpload(t, s, "dog", 7, map[string]string{"model.onnx": "one"})
	mustLabel(t, s, "cat", "live", 2)
	mustLabel(t, s, "cat", "back", 1)
	mustLabel(t, s, "cat", "back", 2)
	if err := s.SetWanted(ctx, "cat", false); err != nil {
		t.Fatal(err)
	}
	records := s.Records()
	closeStore(t, s)
	return records
}

func TestFullDiskAtEveryOperationLeavesOldOrNewState(t *testing.T) {
	furnished := t.TempDir()
	before := furnish(t, furnished)
	for _, c := range changes() {
		for name, broken := range map[string]func() *faultDisk{
			"once":         func() *faultDisk { return &faultDisk{} },
			"from then on": func() *faultDisk { return &faultDisk{stay: true} },
			"after commit": func() *faultDisk { return &faultDisk{afterCommit: true} },
		} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := &fault{change: c, furnished: furnished, before: before}
				for n := 1; f.at(t, broken(), n); n++ {
					if n > 500 {
						t.Fatal("the change never succeeds")
					}
				}
			})
		}
	}
}

// fault makes the disk operations of one change fail in turn.
type fault struct {
	change
	furnished string // the folder of a store that is copied
	before    []*edgewise.Record
	dir       string // the copy; empty when used up
}

// at makes the n-th operation fail and reports whether there was one.
func (f *fault) at(t *testing.T, d *faultDisk, n int) bool {
	t.Helper()
	if f.dir == "" {
		f.dir = t.TempDir()
		if out, err := exec.Command("cp", "-a", f.furnished+"/.", f.dir).CombinedOutput(); err != nil {
			t.Fatalf("copying the store: %v\n%s", err, out)
		}
	}
	s := openLazy(t, f.dir, d)
	d.ops, d.failAt = 0, n
	err := f.run(s)
	d.failAt = 0
	running := s.Records()
	closeStore(t, s)
	at := fmt.Sprintf("operation %d (%s)", n, d.failed)

	s = openLazy(t, f.dir, lazyDisk{})
	defer closeStore(t, s)
	wantWhole(t, s)
	if diff := cmp.Diff(running, s.Records()); diff != "" {
		t.Fatalf("%s: reopening changed what is visible:\n%s", at, diff)
	}
	same := cmp.Equal(f.before, s.Records())
	f.checkError(t, d, at, err, same)
	if same && !d.stay { // with stay the next operation to fail begins where this one ended
		if err := f.run(s); err != nil {
			t.Fatalf("%s: the same change fails afterwards: %v", at, err)
		}
		wantWhole(t, s)
	}
	if !same || !d.stay {
		f.dir = ""
	}
	return d.failed != ""
}

func (f *fault) checkError(t *testing.T, d *faultDisk, at string, err error, same bool) {
	t.Helper()
	if err == nil {
		if same {
			t.Fatalf("%s: success without effect", at)
		}
		return
	}
	wantKind(t, err, edgewise.Exhausted, "no space left", "ing ")
	if strings.Contains(err.Error(), "/secret/") {
		t.Fatalf("%s: error %q shows a path of the machine", at, err)
	}
	if !same && !d.afterCommit {
		t.Fatalf("%s: failed and took effect:\n%s", at, cmp.Diff(f.before, same))
	}
}

func TestFailedPutCanBePutAgain(t *testing.T) {
	for n := 1; ; n++ {
		d := &faultDisk{}
		s := openLazy(t, t.TempDir(), d)
		mustUpload(t, s, "cat", 0, map[string]string{"labels.txt": "shared"})
		g, err := s.Begin(ctx, -1)
		if err != nil {
			t.Fatal(err)
		}
		for path, content := range map[string]string{"a/model.onnx": "new", "labels.txt": "shared"} {
			if _, err := g.Add(ctx, path, -1, strings.NewReader(content)); err != nil {
				t.Fatal(err)
			}
		}
		v := edgewise.Version{ID: edgewise.ModelID{Name: "dog"}, Model: model("dog")}
		d.ops, d.failAt = 0, n
		_, err = s.Put(ctx, g, v)
		d.failAt = 0
		if d.failed == "" {
			break
		}
		if err != nil {
			if _, err := s.Put(ctx, g, v); err != nil {
				t.Fatalf("operation %d (%s): second Put: %v", n, d.failed, err)
			}
		}
		if got := read(t, s, edgewise.ModelID{Name: "dog", Version: 1}, "a/model.onnx"); got != "new" {
			t.Fatalf("operation %d: read %q", n, got)
		}
		closeStore(t, s)
		s = openLazy(t, string(s.root), lazyDisk{})
		wantWhole(t, s)
		closeStore(t, s)
	}
}

// linklessDisk is a file system without hard links.
type linklessDisk struct{ osDevice }

func (linklessDisk) Link(_, to string) error {
	return &os.LinkError{Op: "link", New: to, Err: syscall.EPERM}
}

func TestFilesAreCopiedWhereThereAreNoHardLinks(t *testing.T) {
	o := quiet()
	o.disk = linklessDisk{}
	s := open(t, t.TempDir(), o)
	files := map[string]string{"a": "alpha", "b/c": "gamma"}
	first := mustUpload(t, s, "cat", 0, files)
	mustUpload(t, s, "cat", 0, files)
	wantWhole(t, s)
	if err := s.DeleteVersion(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, s)
	if got := read(t, s, edgewise.ModelID{Name: "cat", Version: 2}, "b/c"); got != "gamma" {
		t.Fatalf("read %q", got)
	}
}
