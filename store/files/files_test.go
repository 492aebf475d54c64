package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
)

func mustOpen(t *testing.T, folder string) *Files {
	t.Helper()
	f, err := Open(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func put(t *testing.T, f *Files, text string) edgewise.Digest {
	t.Helper()
	digest, err := f.Put([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestFilesAreThereAgainAfterARestart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "goldens")
	f := mustOpen(t, folder)
	one, same, other := put(t, f, "one"), put(t, f, "one"), put(t, f, "")
	if one != same {
		t.Errorf("equal files have the names %s and %s", one, same)
	}
	partial := f.path(one) + newSuffix
	if err := os.WriteFile(partial, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f = mustOpen(t, folder)
	for digest, want := range map[edgewise.Digest]string{one: "one", other: ""} {
		if data, err := f.Get(digest, 3); err != nil || string(data) != want {
			t.Errorf("%q, %v: want %q", data, err, want)
		}
	}
	if _, err := os.Stat(partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file whose making was interrupted is still there: %v", err)
	}
	if _, err := f.Get(one, 2); edgewise.KindOf(err) != edgewise.TooLarge {
		t.Errorf("a file over the limit: %v", err)
	}
}

func TestFilesThatNobodyNamesAreSwept(t *testing.T) {
	f := mustOpen(t, filepath.Join(t.TempDir(), "goldens"))
	kept, gone := put(t, f, "kept"), put(t, f, "gone")
	if err := f.Sweep(func(d edgewise.Digest) bool { return d == kept }); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(gone, 10); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("a file that nobody names: %v", err)
	}
	if data, err := f.Get(kept, 10); err != nil || string(data) != "kept" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestFilesThatAreDamagedOrNamedBadlyAreRefused(t *testing.T) {
	f := mustOpen(t, filepath.Join(t.TempDir(), "goldens"))
	digest := put(t, f, "whole")
	path := f.path(digest)
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("whale"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(digest, 10); edgewise.KindOf(err) != edgewise.Corrupt {
		t.Errorf("a damaged file: %v", err)
	}
	for _, bad := range []edgewise.Digest{"", "../../catalog.db", digest[1:], digest[:62] + "/x"} {
		if _, err := f.Get(bad, 10); edgewise.KindOf(err) != edgewise.NotFound {
			t.Errorf("%q: %v", bad, err)
		}
	}
	put(t, f, "whole")
	if data, err := f.Get(digest, 10); err != nil || string(data) != "whole" {
		t.Errorf("putting it again does not mend it: %q, %v", data, err)
	}
}

// fullDisk fails at one operation that needs room.
type fullDisk struct {
	disk.OS
	left   int // operations until then
	failed bool
}

func (d *fullDisk) step() error {
	if d.left--; d.left != 0 {
		return nil
	}
	d.failed = true
	return &os.PathError{Op: "write", Path: "/secret/place", Err: syscall.ENOSPC}
}

func (d *fullDisk) Create(path string) (disk.File, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.OS.Create(path)
	return &fullFile{f, d}, err
}

func (d *fullDisk) Rename(from, to string) error { return errors.Join(d.step(), d.OS.Rename(from, to)) }

func (d *fullDisk) SyncDir(path string) error { return errors.Join(d.step(), d.OS.SyncDir(path)) }

type fullFile struct {
	disk.File
	disk *fullDisk
}

func (f *fullFile) Write(p []byte) (int, error) {
	if err := f.disk.step(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *fullFile) Sync() error { return errors.Join(f.disk.step(), f.File.Sync()) }

func TestAFullDiskIsSaidAndHarmsNoOtherFile(t *testing.T) {
	for left := 1; ; left++ {
		folder := filepath.Join(t.TempDir(), "goldens")
		first := put(t, mustOpen(t, folder), "first")
		d := &fullDisk{left: left}
		f, err := open(folder, 0, d)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := f.Put([]byte("second"))
		if !d.failed {
			if left < 6 || err != nil {
				t.Fatalf("only %d operations can fail: %v", left-1, err)
			}
			return
		}
		if edgewise.KindOf(err) != edgewise.Exhausted || digest != "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("operation %d fails: %q, %v", left, digest, err)
		}
		if data, err := mustOpen(t, folder).Get(first, 10); err != nil || string(data) != "first" {
			t.Errorf("operation %d fails: the file before is %q, %v", left, data, err)
		}
	}
}

func TestFilesLeaveTheReserveOfTheDisk(t *testing.T) {
	folder := t.TempDir()
	_, free, err := disk.OS{}.Space(folder)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(folder, 2*free)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Put([]byte("x")); edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("got %v", err)
	}
}
