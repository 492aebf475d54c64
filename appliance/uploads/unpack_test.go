package uploads

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

var roomy = Limits{Bytes: 1 << 20, Files: 10, Room: func(int64) error { return nil }}

func unpackBytes(t testing.TB, kind string, archive []byte, limits Limits) (dir string, err error) {
	t.Helper()
	base := t.TempDir()
	file := filepath.Join(base, "archive")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(base, "out")
	err = Unpack(kind, file, dir, limits, func(int64) {})
	// Whatever is in an archive, nothing is written beside the folder.
	if entries, bad := os.ReadDir(base); bad != nil || len(entries) > 2 {
		t.Fatalf("beside the folder: %v, %v", entries, bad)
	}
	return dir, err
}

type entry struct {
	name, text string
	mode       fs.FileMode
}

func zipped(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(e.text))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarred(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		h.Mode = 0o600
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(make([]byte, h.Size))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUnpack(t *testing.T) {
	dir, err := unpackBytes(t, "zip", zipped(t, entry{"cat/1/model.onnx", "net", 0}, entry{"cat/", "", 0},
		entry{"./cat/labels.txt", "a", 0}, entry{"__MACOSX/x", "junk", 0}), roomy)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"cat/1/model.onnx": "net", "cat/labels.txt": "a"} {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "__MACOSX")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what the other system left is there")
	}
	if _, err := unpackBytes(t, "tar", tarred(t, tar.Header{Name: "a/", Typeflag: tar.TypeDir},
		tar.Header{Name: "a/b", Size: 3}), roomy); err != nil {
		t.Error(err)
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	many := []entry{}
	for i := range 11 {
		many = append(many, entry{strings.Repeat("n", i+1), "", 0})
	}
	lying := zipped(t, entry{"a", strings.Repeat("x", 5000), 0})
	cut := tarred(t, tar.Header{Name: "a", Size: 600}, tar.Header{Name: "b", Size: 600})
	cut = cut[:512+1024] // behind the first file
	for name, test := range map[string]struct {
		kind    string
		archive []byte
		want    edgewise.Kind
	}{
		"no zip":            {"zip", []byte("PK\x03\x04 not one"), edgewise.Invalid},
		"no tar":            {"tar", bytes.Repeat([]byte("x"), 2000), edgewise.Invalid},
		"empty":             {"zip", zipped(t), edgewise.Invalid},
		"out of it":         {"zip", zipped(t, entry{"../x", "", 0}), edgewise.Invalid},
		"out of it, deeper": {"zip", zipped(t, entry{"a/../../x", "", 0}), edgewise.Invalid},
		"absolute":          {"zip", zipped(t, entry{"/etc/passwd", "", 0}), edgewise.Invalid},
		"backslashes":       {"zip", zipped(t, entry{`..\x`, "", 0}), edgewise.Invalid},
		"a link":            {"zip", zipped(t, entry{"x", "/etc/passwd", fs.ModeSymlink | 0o777}), edgewise.Invalid},
		"a link in tar": {
			"tar", tarred(t, tar.Header{Name: "x", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}),
			edgewise.Invalid,
		},
		"a hard link in tar": {
			"tar", tarred(t, tar.Header{Name: "x", Linkname: "../y", Typeflag: tar.TypeLink}),
			edgewise.Invalid,
		},
		"a device in tar":    {"tar", tarred(t, tar.Header{Name: "x", Typeflag: tar.TypeChar}), edgewise.Invalid},
		"twice":              {"zip", zipped(t, entry{"a", "1", 0}, entry{"a", "2", 0}), edgewise.Invalid},
		"twice but for case": {"zip", zipped(t, entry{"a", "1", 0}, entry{"A", "2", 0}), edgewise.Invalid},
		"below a file":       {"zip", zipped(t, entry{"a", "1", 0}, entry{"a/b", "2", 0}), edgewise.Invalid},
		"many files":         {"zip", zipped(t, many...), edgewise.TooLarge},
		"a bomb":             {"zip", zipped(t, entry{"a", strings.Repeat("\x00", 2<<20), 0}), edgewise.TooLarge},
		"a large tar":        {"tar", tarred(t, tar.Header{Name: "x", Size: 2 << 20}), edgewise.TooLarge},
		"cut off in tar":     {"tar", cut, edgewise.Invalid},
		"damaged":            {"zip", bytes.Replace(lying, lying[40:50], make([]byte, 10), 1), edgewise.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpackBytes(t, test.kind, test.archive, roomy)
			wantKind(t, err, test.want, "")
		})
	}
	_, err := unpackBytes(t, "zip", zipped(t, entry{"a", "x", 0}),
		Limits{
			Bytes: 1 << 20, Files: 10,
			Room: func(int64) error { return edgewise.Errorf("test", edgewise.Exhausted, "full") },
		})
	wantKind(t, err, edgewise.Exhausted, "full")
}

func FuzzUnpack(f *testing.F) {
	f.Add(true, zipped(f, entry{"a/b", "text", 0}, entry{"../x", "", 0}))
	f.Add(false, tarred(f, tar.Header{Name: "a/b", Size: 3},
		tar.Header{Name: "l", Linkname: "../x", Typeflag: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, isZip bool, archive []byte) {
		kind := "tar"
		if isZip {
			kind = "zip"
		}
		dir, err := unpackBytes(t, kind, archive, roomy)
		if err != nil && edgewise.KindOf(err) == edgewise.Internal {
			t.Fatal(err)
		}
		total, files := int64(0), 0
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s is %v, %v", path, info.Mode(), err)
			}
			total += info.Size()
			files++
			return nil
		})
		if total > roomy.Bytes+bufSize || files > roomy.Files {
			t.Errorf("%d bytes in %d files", total, files)
		}
	})
}

// TestAZipArchiveWithAnEndlessListIsNotTakenIntoMemory says 300,000 times that it holds an empty file.
func TestAZipArchiveWithAnEndlessListIsNotTakenIntoMemory(t *testing.T) {
	const entries = 300_000
	one := zipped(t, entry{"a", "", 0})
	end := bytes.LastIndex(one, []byte("PK\x05\x06"))
	begin := int(binary.LittleEndian.Uint32(one[end+16:]))
	archive := append(bytes.Clone(one[:begin]), bytes.Repeat(one[begin:end], entries)...)
	tail := bytes.Clone(one[end:])
	binary.LittleEndian.PutUint16(tail[8:], uint16(entries%(1<<16)))
	binary.LittleEndian.PutUint16(tail[10:], uint16(entries%(1<<16)))
	binary.LittleEndian.PutUint32(tail[12:], uint32(entries*(end-begin)))
	archive = append(archive, tail...)
	file := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Unpack("zip", file, file+".d", roomy, func(int64) {})
	runtime.ReadMemStats(&after)
	wantKind(t, err, edgewise.TooLarge, "more than 10 files")
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("a list of %d bytes took %d bytes of memory", entries*(end-begin), took)
	}
}
