package tarfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// packed is an archive of files, folders among them, without the blocks that mark its end.
func packed(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Mode = 0o600
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, e.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zeros reads as a file whose bytes look like the mark of the end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// names reads an archive to its end.
func names(archive []byte) (list []string, err error) {
	r := NewReader(bytes.NewReader(archive))
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, entry.Name)
	}
}

func TestOnlyAWholeArchiveHasAnEnd(t *testing.T) {
	long := strings.Repeat("long/", 60) + "name" // takes an entry of its own before that of the file
	whole := packed(t, tar.Header{Name: "folder/", Typeflag: tar.TypeDir}, tar.Header{Name: "a", Size: 1024},
		tar.Header{Name: "b", Size: 700}, tar.Header{Name: long, Size: 3}, tar.Header{Name: "empty"})
	for n := range len(whole) + 1 {
		if n%64 != 0 && (n+1)%block != 0 && (n-1)%block != 0 {
			continue
		}
		if list, err := names(whole[:n]); err == nil {
			t.Fatalf("an archive cut off behind %d of %d bytes is whole, with %v", n, len(whole), list)
		}
	}
	for marks := 1; marks <= 20; marks++ {
		list, err := names(append(bytes.Clone(whole), make([]byte, marks*block)...))
		if err != nil || len(list) != 5 {
			t.Errorf("with %d blocks of zeros behind it: %v, %v", marks, list, err)
		}
	}
	if _, err := names(whole); err == nil || !strings.Contains(err.Error(), `behind entry "empty"`) {
		t.Errorf("without a mark of its end: %v", err)
	}
	if _, err := names(nil); err == nil || !strings.Contains(err.Error(), "no entry") {
		t.Errorf("nothing: %v", err)
	}
	if list, err := names(make([]byte, 2*block)); err != nil || len(list) != 0 {
		t.Errorf("an archive of nothing: %v, %v", list, err)
	}
}

func TestAnArchiveMayBeReadInPieces(t *testing.T) {
	whole := append(packed(t, tar.Header{Name: "a", Size: 2000}, tar.Header{Name: "b", Size: 5}), make([]byte, 2*block)...)
	r := NewReader(bytes.NewReader(whole))
	entry, err := r.Next()
	if err != nil || entry.Name != "a" {
		t.Fatal(entry, err)
	}
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil { // the rest is skipped
		t.Fatal(err)
	}
	if entry, err = r.Next(); err != nil || entry.Name != "b" {
		t.Fatal(entry, err)
	}
	if _, err = r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want the end", err)
	}
}

// FuzzReader holds two claims against any bytes: what is read before an error is what archive/tar reads, and no proper
// beginning of a whole archive, up to its last entry, is whole too.
func FuzzReader(f *testing.F) {
	f.Add(packed(f, tar.Header{Name: "a", Size: 600}), uint16(512))
	f.Add(append(packed(f, tar.Header{Name: "a", Size: 600}, tar.Header{Name: "b/", Typeflag: tar.TypeDir}),
		make([]byte, 2*block)...), uint16(1536))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, archive []byte, cut uint16) {
		list, err := names(archive)
		theirs := tar.NewReader(bytes.NewReader(archive))
		for i, name := range list {
			entry, e := theirs.Next()
			if e != nil || entry.Name != name {
				t.Fatalf("entry %d is %q, archive/tar says %v, %v", i, name, entry, e)
			}
		}
		if err != nil || len(list) == 0 || int(cut) >= len(archive) {
			return
		}
		short, err := names(archive[:cut])
		if err == nil && len(short) < len(list) && !marked(archive[:cut]) {
			t.Fatalf("cut off behind %d of %d bytes, with %d of %d entries, it is whole", cut, len(archive), len(short),
				len(list))
		}
	})
}

// marked tells whether an archive ends in a block of zeros, which may be its mark.
func marked(archive []byte) bool {
	return len(archive) >= block && len(bytes.Trim(archive[len(archive)-block:], "\x00")) == 0
}
