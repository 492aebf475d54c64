package store

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// sharingDisk stands for one that can share blocks: its files take over others by a copy and count how often.
type sharingDisk struct {
	osDevice
	clones  *int
	refuses bool
}

type sharingFile struct {
	disk.File
	disk sharingDisk
	path string
}

func (d sharingDisk) Create(path string) (disk.File, error) {
	f, err := d.osDevice.Create(path)
	return sharingFile{f, d, path}, err
}

func (f sharingFile) Clone(from *os.File) io.ReadCloser {
	if f.disk.refuses {
		return nil
	}
	*f.disk.clones++
	data, err := os.ReadFile(from.Name())
	if err != nil {
		return nil
	}
	if _, err := f.File.Write(data); err != nil {
		return nil
	}
	in, err := os.Open(f.path)
	if err != nil {
		return nil
	}
	return in
}

// TestFilesShareTheirBytesWhereTheDiskCan stores a file on a disk that can share blocks, on one that refuses, and on
// the real one, and changes it afterwards: the version has what was there.
func TestFilesShareTheirBytesWhereTheDiskCan(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	for _, test := range []struct {
		name   string
		disk   func(*int) device
		from   int // where the file is read from
		size   int64
		clones int
		kind   edgewise.Kind
		fails  bool
	}{
		{name: "shared", disk: func(n *int) device { return sharingDisk{clones: n} }, size: int64(len(whole)), clones: 1},
		{name: "shared, of a size not declared", disk: func(n *int) device { return sharingDisk{clones: n} }, size: -1, clones: 1},
		{name: "a part of a file", disk: func(n *int) device { return sharingDisk{clones: n} }, from: 16, size: int64(len(whole)) - 16},
		{name: "refused", disk: func(n *int) device { return sharingDisk{clones: n, refuses: true} }, size: int64(len(whole))},
		{name: "the disk that there is", disk: func(*int) device { return osDevice{} }, size: int64(len(whole))},
		{
			name: "more than declared", disk: func(n *int) device { return sharingDisk{clones: n} }, size: 10, clones: 1,
			kind: edgewise.Invalid, fails: true,
		},
		{
			name: "less than declared", disk: func(n *int) device { return sharingDisk{clones: n} }, size: int64(len(whole)) + 1,
			clones: 1, kind: edgewise.Invalid, fails: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.onnx")
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			source, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = source.Close() }()
			if _, err := source.Seek(int64(test.from), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			clones := 0
			o := quiet()
			o.disk = test.disk(&clones)
			s := open(t, t.TempDir(), o)
			g, err := s.Begin(t.Context(), -1)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = g.Discard() }()
			f, err := g.Add(t.Context(), "model.onnx", test.size, source)
			if clones != test.clones || (err != nil) != test.fails || test.fails && edgewise.KindOf(err) != test.kind {
				t.Fatalf("%d clones, want %d; %v", clones, test.clones, err)
			}
			if test.fails {
				return
			}
			want := whole[test.from:]
			if f.Size != int64(len(want)) || f.Digest != hashOf(string(want)) {
				t.Errorf("%d bytes, %s", f.Size, f.Digest)
			}
			if err := os.WriteFile(path, []byte(strings.Repeat("x", len(whole))), 0o600); err != nil { // as its owner may
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(g.Dir(), "model.onnx")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes are stored, %v", len(got), err)
			}
		})
	}
}
