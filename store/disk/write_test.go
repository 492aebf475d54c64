package disk

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise/aligned"
)

// createFile makes a file whose next write is the first that may go past the page cache.
func createFile(t *testing.T) (f *osFile, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	made, err := OS{}.Create(path)
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

// buffers returns three that begin at multiples of DirectBlock.
func buffers() (r [3][]byte) {
	for i := range r {
		r[i] = aligned.Bytes(bufferBytes, DirectBlock)
	}
	return r
}

const bufferBytes = 1 << 20

// filled returns buffers that hold different bytes.
func filled() [3][]byte {
	r := buffers()
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
		{"small writes", [][]byte{r[0], r[1][:DirectBlock], r[2]}},
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
	n, e := w.Writer.Write(p[:DirectBlock])
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
	f.choose(buffers()[0])
	if f.direct || !f.buffered {
		t.Errorf("direct %v, buffered %v after a refusal", f.direct, f.buffered)
	}
}

func TestFullDiskIsNoReasonToWriteAgain(t *testing.T) {
	f, path := createFile(t)
	r := filled()
	f.out = &refusingWriter{f.File, syscall.ENOSPC}
	n, err := f.Write(r[0])
	if n != DirectBlock || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("wrote %d bytes with error %v: want %d and a full disk", n, err, DirectBlock)
	}
	wantContent(t, path, r[0][:DirectBlock])
}

func TestSmallFilesStayInThePageCache(t *testing.T) {
	f, _ := createFile(t)
	f.written = directFrom - bufferBytes
	if f.choose(buffers()[0]); f.direct || f.buffered {
		t.Errorf("direct %v, refused %v before offset %d", f.direct, f.buffered, directFrom)
	}
}
