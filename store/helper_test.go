package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// quiet are options without the snapshot goroutine, whose writes would come between those that a test counts.
func quiet() Options { return Options{SnapshotEvery: -1} }

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// model returns a declaration that is told from others by its name.
func model(name string) *edgewise.Model {
	return &edgewise.Model{
		Name: name, Platform: "onnxruntime_onnx",
		Input: []edgewise.ModelInput{{Name: "x<&>", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 3}}},
	}
}

// upload puts files (path to content) as a version; number 0 takes the next one.
func upload(s *Store, name string, number int64, files map[string]string) (*edgewise.Version, error) {
	ctx := context.Background()
	g, err := s.Begin(ctx, -1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Discard() }()
	paths := make([]string, 0, len(files))
	for p := range files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		if _, err := g.Add(ctx, p, int64(len(files[p])), strings.NewReader(files[p])); err != nil {
			return nil, err
		}
	}
	return s.Put(ctx, g, edgewise.Version{ID: edgewise.ModelID{Name: name, Version: number}, Model: model(name), Origin: "test"})
}

func mustUpload(t testing.TB, s *Store, name string, number int64, files map[string]string) *edgewise.Version {
	t.Helper()
	v, err := upload(s, name, number, files)
	if err != nil {
		t.Fatalf("upload %s %d: %v", name, number, err)
	}
	return v
}

func mustLabel(t testing.TB, s *Store, name, label string, version int64) {
	t.Helper()
	if _, err := s.SetLabel(context.Background(), name, label, version); err != nil {
		t.Fatalf("SetLabel: %v", err)
	}
}

func wantKind(t testing.TB, err error, kind edgewise.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error: want kind %v", kind)
	}
	if got := edgewise.KindOf(err); got != kind {
		t.Fatalf("error %q has kind %v: want %v", err, got, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

// wantWhole fails unless everything in the store reads back as it was written and nothing else is there.
func wantWhole(t testing.TB, s *Store) {
	t.Helper()
	r, err := s.Verify(context.Background())
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	if !r.OK() {
		t.Fatalf("store is not whole:\n%s", r)
	}
	d, err := s.root.scan(s.view.Load())
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	if len(d.garbage)+len(d.marked)+len(d.unknown)+len(d.foreign) > 0 {
		t.Fatalf("left behind: %+v", *d)
	}
}

func read(t testing.TB, s *Store, id edgewise.ModelID, path string) string {
	t.Helper()
	dir, err := s.Dir(id)
	if err != nil {
		t.Fatalf("Dir: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func hashOf(content string) edgewise.Digest {
	sum := sha256.Sum256([]byte(content))
	return edgewise.Digest(hex.EncodeToString(sum[:]))
}

// overwrite changes a read-only file of the store behind its back.
func overwrite(t testing.TB, path, content string) {
	t.Helper()
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

// replace puts another file in the place of one of the store's.
func replace(t testing.TB, path, content string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

func pattern(n int) string { return string(bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]) }
