package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func begin(t testing.TB, s *Store, size int64) *Staging {
	t.Helper()
	g, err := s.Begin(ctx, size)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return g
}

func TestBadFilesAreRefused(t *testing.T) {
	o := quiet()
	o.MaxVersionBytes, o.MaxFiles = 100, 3
	s := open(t, t.TempDir(), o)
	many := func(n int) io.Reader { return strings.NewReader(pattern(n)) }
	cases := []struct {
		name  string
		total int64
		path  string
		size  int64
		body  io.Reader
		kind  edgewise.Kind
		says  string
	}{
		{"path that leaves", -1, "../x", -1, many(1), edgewise.Invalid, "../x"},
		{"absolute path", -1, "/x", -1, many(1), edgewise.Invalid, "clean path"},
		{"NUL in path", -1, "a\x00b", -1, many(1), edgewise.Invalid, "control characters"},
		{"backslash", -1, `a\b`, -1, many(1), edgewise.Invalid, "backslashes"},
		{"empty path", -1, "", -1, many(1), edgewise.Invalid, "0 bytes"},
		{"long segment", -1, strings.Repeat("n", 300), -1, many(1), edgewise.Invalid, "255"},
		{"the same file twice", -1, "dir/there", -1, many(1), edgewise.Invalid, "twice"},
		{"file that is a folder", -1, "dir", -1, many(1), edgewise.Invalid, "also a folder"},
		{"file inside a file", -1, "dir/there/x", -1, many(1), edgewise.Invalid, "inside file"},
		{"negative size", -1, "x", -2, many(1), edgewise.Invalid, "negative"},
		{"more than declared", -1, "x", 5, many(6), edgewise.Invalid, "5 bytes were declared and more came"},
		{"less than declared", -1, "x", 5, many(4), edgewise.Invalid, "5 bytes were declared and 4 came"},
		{"declared over the bound", -1, "x", 100, many(1), edgewise.TooLarge, "100 bytes"},
		{"over the bound", -1, "x", -1, many(101), edgewise.TooLarge, "100 bytes"},
		{"declared over the total", 10, "x", 10, many(10), edgewise.Invalid, "10 bytes that were declared"},
		{"over the total", 10, "x", -1, many(10), edgewise.Invalid, "10 bytes that were declared"},
		{
			"body that was cut off", -1, "x", -1, io.MultiReader(many(9), iotest.ErrReader(io.ErrUnexpectedEOF)),
			edgewise.Invalid, "unexpected EOF",
		},
		{
			"body whose error wraps an end", -1, "x", -1,
			io.MultiReader(many(9), iotest.ErrReader(fmt.Errorf("unpacking: %w", io.EOF))), edgewise.Invalid, "unpacking",
		},
		{"body whose sender left", -1, "x", -1, iotest.ErrReader(context.Canceled), edgewise.Canceled, "canceled"},
		{"body that says nothing", -1, "x", -1, mute{}, edgewise.Invalid, "multiple Read calls"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := begin(t, s, c.total)
			defer func() { _ = g.Discard() }()
			if _, err := g.Add(ctx, "dir/there", 1, strings.NewReader("1")); err != nil {
				t.Fatal(err)
			}
			_, err := g.Add(ctx, c.path, c.size, c.body)
			wantKind(t, err, c.kind, c.says)
		})
	}
	wantWhole(t, s)
}

type mute struct{}

func (mute) Read([]byte) (int, error) { return 0, nil }

func TestFilesAreBounded(t *testing.T) {
	o := quiet()
	o.MaxFiles = 2
	s := open(t, t.TempDir(), o)
	_, err := upload(s, "cat", 0, map[string]string{"a": "1", "b": "2", "c": "3"})
	wantKind(t, err, edgewise.TooLarge, `"c"`, "at most 2 files")
	mustUpload(t, s, "cat", 0, map[string]string{"a": "1", "b": "2"})
}

func TestUploadsInFlightAreBounded(t *testing.T) {
	o := quiet()
	o.MaxUploads = 2
	s := open(t, t.TempDir(), o)
	a, b := begin(t, s, -1), begin(t, s, -1)
	_, err := s.Begin(ctx, -1)
	wantKind(t, err, edgewise.Busy, "at most 2")
	if err := errors.Join(a.Discard(), a.Discard()); err != nil {
		t.Fatal(err)
	}
	c := begin(t, s, -1)
	_, err = s.Begin(ctx, -1)
	wantKind(t, err, edgewise.Busy)
	if err := errors.Join(b.Discard(), c.Discard()); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, s)
}

func TestBadVersionsAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	huge := model("cat")
	huge.Parameters = map[string]edgewise.ModelParam{"p": {StringValue: strings.Repeat("x", MaxManifestBytes)}}
	cases := []struct {
		name    string
		total   int64
		files   int
		version edgewise.Version
		kind    edgewise.Kind
		says    string
	}{
		{"name with a slash", -1, 1, edgewise.Version{ID: edgewise.ModelID{Name: "a/b"}, Model: model("a")}, edgewise.Invalid, "a/b"},
		{"name that leaves", -1, 1, edgewise.Version{ID: edgewise.ModelID{Name: ".."}, Model: model("a")}, edgewise.Invalid, `".."`},
		{"look-alike name", -1, 1, edgewise.Version{ID: edgewise.ModelID{Name: "сat"}, Model: model("a")}, edgewise.Invalid, "not allowed"},
		{
			"negative number", -1, 1,
			edgewise.Version{ID: edgewise.ModelID{Name: "cat", Version: -1}, Model: model("cat")},
			edgewise.Invalid, "negative",
		},
		{"no declaration", -1, 1, edgewise.Version{ID: edgewise.ModelID{Name: "cat"}}, edgewise.Invalid, "no declaration"},
		{"no files", -1, 0, edgewise.Version{ID: edgewise.ModelID{Name: "cat"}, Model: model("cat")}, edgewise.Invalid, "no files"},
		{
			"less than declared", 9, 1,
			edgewise.Version{ID: edgewise.ModelID{Name: "cat"}, Model: model("cat")},
			edgewise.Invalid, "9 bytes were declared and 1 came",
		},
		{"huge declaration", -1, 1, edgewise.Version{ID: edgewise.ModelID{Name: "cat"}, Model: huge}, edgewise.TooLarge, "at most 16777216"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := begin(t, s, c.total)
			defer func() { _ = g.Discard() }()
			for i := range c.files {
				if _, err := g.Add(ctx, fmt.Sprint(i), 1, strings.NewReader("1")); err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.Put(ctx, g, c.version)
			wantKind(t, err, c.kind, c.says)
		})
	}
	if len(s.Records()) != 0 {
		t.Fatal("a refused version is visible")
	}
	wantWhole(t, s)
}

func TestEndedOrSpoiltUploadTakesNothingMore(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	spoilt := begin(t, s, -1)
	_, _ = spoilt.Add(ctx, "m", -1, iotest.ErrReader(io.ErrUnexpectedEOF))
	put := begin(t, s, -1)
	if _, err := put.Add(ctx, "m", -1, strings.NewReader("1")); err != nil {
		t.Fatal(err)
	}
	v := edgewise.Version{ID: edgewise.ModelID{Name: "cat"}, Model: model("cat")}
	if _, err := s.Put(ctx, put, v); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*Staging{spoilt, put} {
		_, err := g.Add(ctx, "n", -1, strings.NewReader("1"))
		wantKind(t, err, edgewise.Conflict)
		_, err = s.Put(ctx, g, v)
		wantKind(t, err, edgewise.Conflict)
		if err := g.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	wantWhole(t, s)
}

func TestStagedFilesStandUnderTheirPaths(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	g := begin(t, s, 4)
	defer func() { _ = g.Discard() }()
	f, err := g.Add(ctx, "a/b.bin", -1, strings.NewReader("four"))
	if err != nil || f.Size != 4 || f.Digest != hashOf("four") {
		t.Fatalf("%+v, %v", f, err)
	}
	data, err := os.ReadFile(filepath.Join(g.Dir(), "a", "b.bin"))
	if err != nil || string(data) != "four" {
		t.Fatalf("%q, %v", data, err)
	}
}

// smallDisk has free bytes of room.
type smallDisk struct {
	osDevice
	free int64
}

func (d *smallDisk) Space(string) (total, free int64, err error) { return d.free, d.free, nil }

func TestReserveIsKeptFree(t *testing.T) {
	o := quiet()
	d := &smallDisk{free: 1000}
	o.disk, o.Reserve = d, 400
	s := open(t, t.TempDir(), o)
	_, err := s.Begin(ctx, 601)
	wantKind(t, err, edgewise.Exhausted, "601", "1000", "400")
	first := begin(t, s, 500)
	_, err = s.Begin(ctx, 101) // 500 are promised
	wantKind(t, err, edgewise.Exhausted, "601")
	if _, err := first.Add(ctx, "m", 500, strings.NewReader(pattern(500))); err != nil {
		t.Fatal(err)
	}
	d.free = 500 // the promise was kept
	second := begin(t, s, 100)
	if err := errors.Join(first.Discard(), second.Discard()); err != nil {
		t.Fatal(err)
	}
	if s.budget.promised != 0 || s.budget.inFlight != 0 {
		t.Fatalf("budget after all: %d promised, %d in flight", s.budget.promised, s.budget.inFlight)
	}
	d.free = 399
	_, err = s.Begin(ctx, -1)
	wantKind(t, err, edgewise.Exhausted)
}

func TestReserveIsKeptWhileAnUndeclaredSizeIsWritten(t *testing.T) {
	o := quiet()
	d := &smallDisk{free: 1000}
	o.disk, o.Reserve = d, 400
	s := open(t, t.TempDir(), o)
	g := begin(t, s, -1)
	defer func() { _ = g.Discard() }()
	n := 0
	_, err := g.Add(ctx, "m", -1, readerFunc(func(p []byte) (int, error) {
		d.free = 399
		n += len(p)
		return len(p), nil
	}))
	wantKind(t, err, edgewise.Exhausted, "399 are free")
	if n > 2*reserveStep {
		t.Fatalf("stopped after %d bytes", n)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestUploadStopsWhenItsContextIsDone(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	g := begin(t, s, -1)
	ctx, cancel := context.WithCancel(ctx)
	_, err := g.Add(ctx, "m", -1, readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	wantKind(t, err, edgewise.Canceled)
	if err := g.Discard(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Begin(ctx, -1)
	wantKind(t, err, edgewise.Canceled)
	_, err = s.SetLabel(ctx, "cat", "live", 1)
	if kind := edgewise.KindOf(err); kind != edgewise.Canceled && kind != edgewise.NotFound {
		t.Fatal(err)
	}
}

func TestAnySizeIsStoredAsSent(t *testing.T) {
	t.Parallel()
	s := openLazy(t, t.TempDir(), lazyDisk{})
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(bufferBytes-2, bufferBytes+2),
			rapid.IntRange(ringBuffers*bufferBytes-1, (2*ringBuffers+1)*bufferBytes+1)).Draw(t, "size")
		data := make([]byte, size)
		r := rand.NewChaCha8([32]byte{byte(size)})
		_, _ = r.Read(data)
		var body io.Reader = bytes.NewReader(data)
		if rapid.Bool().Draw(t, "halves") {
			body = iotest.DataErrReader(iotest.HalfReader(body))
		}
		g, err := s.Begin(ctx, int64(size))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Discard() }()
		f, err := g.Add(ctx, "m", int64(size), body)
		if err != nil || f.Digest != hashOf(string(data)) || f.Size != int64(size) {
			t.Fatalf("%+v, %v", f, err)
		}
		got, err := os.ReadFile(filepath.Join(g.Dir(), "m"))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("stored bytes differ, %v", err)
		}
	})
}

func TestLargeUploadSurvivesAFullDiskPastThePageCache(t *testing.T) {
	const directFrom = 32 << 20 // from here on writes go past the page cache
	const size = directFrom + 2*bufferBytes + 5
	body := pattern(size)
	d := &faultDisk{}
	s := openLazy(t, t.TempDir(), d)
	const before = directFrom / bufferBytes // writes through the page cache
	for n := 1; ; n++ {
		d.ops, d.failAt, d.failed = 0, 0, ""
		g := begin(t, s, size)
		d.ops, d.failAt = 0, 1+before+n // the first is the creation
		_, err := g.Add(ctx, "big.bin", size, bytes.NewReader([]byte(body)))
		d.failAt = 0
		if err == nil {
			if _, err := s.Put(ctx, g, edgewise.Version{ID: edgewise.ModelID{Name: "big"}, Model: model("big")}); err != nil {
				t.Fatal(err)
			}
			if n < 4 {
				t.Fatalf("%d operations after the first %d bytes: want 3 writes and a sync", n-1, directFrom)
			}
			break
		}
		wantKind(t, err, edgewise.Exhausted, "no space left")
		if err := g.Discard(); err != nil {
			t.Fatal(err)
		}
		wantWhole(t, s)
	}
	wantWhole(t, s)
}

// linkingDisk counts the files that are made, and may refuse links.
type linkingDisk struct {
	lazyDisk
	made    *int
	refuses bool
}

func (d linkingDisk) Create(path string) (disk.File, error) {
	*d.made++
	return d.lazyDisk.Create(path)
}

func (d linkingDisk) Link(from, to string) error {
	if d.refuses {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM}
	}
	return d.lazyDisk.Link(from, to)
}

// TestFilesOfAStoredVersionAreLinked makes a version of the files of another one, and deletes that.
func TestFilesOfAStoredVersionAreLinked(t *testing.T) {
	files := map[string]string{"model.onnx": pattern(5000), "deep/er/labels.txt": "cat", "deep/same.txt": "cat"}
	for name, refuses := range map[string]bool{"linked": false, "copied": true} {
		t.Run(name, func(t *testing.T) {
			made := 0
			dir := t.TempDir()
			s := openLazy(t, dir, linkingDisk{made: &made, refuses: refuses})
			base := mustUpload(t, s, "cat", 0, files)
			g := begin(t, s, -1)
			defer func() { _ = g.Discard() }()
			made = 0
			for _, f := range base.Files {
				if err := g.AddStored(f); err != nil {
					t.Fatal(err)
				}
			}
			if (made > 0) != refuses {
				t.Errorf("%d files were written", made)
			}
			wantKind(t, g.AddStored(base.Files[0]), edgewise.Invalid, "twice")
			if err := s.DeleteVersion(ctx, base.ID); err != nil {
				t.Fatal(err)
			}
			v, err := s.Put(ctx, g, edgewise.Version{ID: edgewise.ModelID{Name: "dog"}, Model: model("dog")})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(base.Files, v.Files); diff != "" {
				t.Errorf("other files:\n%s", diff)
			}
			if err := s.DeleteModel(ctx, "dog"); err != nil {
				t.Fatal(err)
			}
			last := begin(t, s, -1)
			wantKind(t, last.AddStored(base.Files[0]), edgewise.NotFound, "labels.txt")
			if err := last.Discard(); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			s = openLazy(t, dir, lazyDisk{})
			defer closeStore(t, s)
			wantWhole(t, s)
		})
	}
}
