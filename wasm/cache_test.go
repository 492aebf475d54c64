package wasm

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// kept lists the files of a cache.
func kept(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestADamagedCacheIsNotRead damages each file of a cache at many places. The runtime would allocate whatever size
// stands in a file.
func TestADamagedCacheIsNotRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	module := folder(t, assemble(t, identity))
	b := New(Config{CacheDir: dir})
	inspect := func() {
		t.Helper()
		if _, err := b.Inspect(t.Context(), module, model()); err != nil {
			t.Fatal(err)
		}
	}
	inspect()
	files := kept(t, dir)
	if info, err := os.Stat(filepath.Dir(files[0])); len(files) != 2 || err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(good); at += 1 + len(good)/40 {
			damaged := bytes.Clone(good)
			damaged[at] ^= 0x55
			if err := os.WriteFile(file, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			inspect()
			if mended, err := os.ReadFile(file); err != nil || bytes.Equal(mended, damaged) {
				t.Fatalf("the damage at byte %d of %s is still there: %v", at, filepath.Base(file), err)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		inspect()
	}
}

func TestACacheIsUsed(t *testing.T) {
	dir := t.TempDir()
	module := folder(t, assemble(t, identity))
	b := New(Config{CacheDir: dir})
	var before time.Time
	for round := range 2 {
		if _, err := b.Inspect(t.Context(), module, model()); err != nil {
			t.Fatal(err)
		}
		for _, file := range kept(t, dir) {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(file) == sealName {
				continue
			}
			if round == 1 && !info.ModTime().Equal(before) {
				t.Error("the module was compiled again")
			}
			before = info.ModTime()
		}
	}
}

func TestACacheKeepsToItsSize(t *testing.T) {
	dir := t.TempDir()
	b := New(Config{CacheDir: dir, CacheBytes: 1})
	if _, err := b.Inspect(t.Context(), folder(t, assemble(t, identity)), model()); err != nil {
		t.Fatal(err)
	}
	if left := kept(t, dir); len(left) != 0 {
		t.Errorf("a cache of one byte holds %v", left)
	}
}

// TestWithoutACacheThatCanBeWritten compiles all the same.
func TestWithoutACacheThatCanBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{CacheDir: file}).Inspect(t.Context(), folder(t, assemble(t, identity)), model()); err != nil {
		t.Error(err)
	}
}
