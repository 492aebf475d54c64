package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// createFile makes a file whose next write is the first that may go past the page cache.
func createFile(t *testing.T) (f *osFile, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	made, err := osDisk{}.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f = made.(*osFile)
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(directFrom); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(directFrom, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	f.written, f.started = directFrom, directFrom
	return f, path
}

// filled returns a ring whose buffers hold different bytes.
func filled() *ring {
	r := newRing()
	for i, buf := range r {
		copy(buf, bytes.Repeat([]byte(strconv.Itoa(i)+" is not the others. "), len(buf)/20+1))
	}
	return r
}

func wantContent(t *testing.T, path string, parts ...[]byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Join(parts, nil); !bytes.Equal(got[directFrom:], want) {
		t.Fatalf("read %d bytes that differ from the %d that were written", len(got)-directFrom, len(want))
	}
}

func TestWritesReachTheFileWhicheverWayTheyGo(t *testing.T) {
	r := filled()
	cases := []struct {
		name  string
		parts [][]byte
	}{
		{"whole buffers", [][]byte{r[0], r[1], r[2]}},
		{"odd tail", [][]byte{r[0], r[1][:bufferBytes-1]}},
		{"small tail", [][]byte{r[0], r[1][:1]}},
		{"buffer after an odd one", [][]byte{r[0], r[1][:bufferBytes-1], r[2]}},
		{"odd address", [][]byte{r[0], r[1][1:], r[2][1:]}},
		{"small writes", [][]byte{r[0], r[1][:directBlock], r[2]}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, path := createFile(t)
			for _, p := range c.parts {
				if n, err := f.Write(p); n != len(p) || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", n, len(p), err)
				}
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			wantContent(t, path, c.parts...)
		})
	}
}

// refusingWriter writes a block and then says what it was told to, once.
type refusingWriter struct {
	io.Writer
	err error
}

func (w *refusingWriter) Write(p []byte) (int, error) {
	err := w.err
	if err == nil {
		return w.Writer.Write(p)
	}
	w.err = nil
	n, e := w.Writer.Write(p[:directBlock])
	return n, errors.Join(err, e)
}

func TestFileSystemThatRefusesToBypassItsCacheGetsBufferedWrites(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EOPNOTSUPP} {
		t.Run(errno.Error(), func(t *testing.T) {
			r := filled()
			f, path := createFile(t)
			f.out = &refusingWriter{f.File, errno}
			f.direct = true
			for _, p := range r {
				if n, err := f.Write(p); n != len(p) || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", n, len(p), err)
				}
			}
			if f.direct || !f.buffered {
				t.Errorf("direct %v, buffered %v after a refusal", f.direct, f.buffered)
			}
			wantContent(t, path, r[:]...)
		})
	}
}

func TestFileThatCannotBeSwitchedStaysBuffered(t *testing.T) {
	f, _ := createFile(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.choose(newRing()[0])
	if f.direct || !f.buffered {
		t.Errorf("direct %v, buffered %v after a refusal", f.direct, f.buffered)
	}
}

func TestFullDiskIsNoReasonToWriteAgain(t *testing.T) {
	f, path := createFile(t)
	r := filled()
	f.out = &refusingWriter{f.File, syscall.ENOSPC}
	n, err := f.Write(r[0])
	if n != directBlock || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("wrote %d bytes with error %v: want %d and a full disk", n, err, directBlock)
	}
	wantContent(t, path, r[0][:directBlock])
}

func TestSmallFilesStayInThePageCache(t *testing.T) {
	f, _ := createFile(t)
	f.written = directFrom - bufferBytes
	if f.choose(newRing()[0]); f.direct || f.buffered {
		t.Errorf("direct %v, refused %v before offset %d", f.direct, f.buffered, directFrom)
	}
}

func TestLargeUploadSurvivesAFullDiskPastThePageCache(t *testing.T) {
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
