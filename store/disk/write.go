package disk

import (
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"
)

const (
	// writebackStep is how many bytes are written before the kernel is asked to begin bringing them to the disk, so that
	// the final sync finds little left to do.
	writebackStep = 8 << 20
	// directFrom is the offset from which a file is written past the page cache. What is before it, and so the whole of
	// most models, stays in memory for the load that follows.
	directFrom = 32 << 20
	// directWrite is the least that is written past the page cache at a time: such a write waits for the disk.
	directWrite = 512 << 10
	// DirectBlock divides the address, the offset and the length of a write past the page cache.
	DirectBlock = 4 << 10
)

// osFile is a file of the operating system, written from its beginning to its end.
type osFile struct {
	*os.File
	out              io.Writer // File
	written, started int64     // bytes; those before started are on their way to the disk
	direct           bool      // writes go past the page cache now
	buffered         bool      // they never will: the system refused
}

func (f *osFile) Write(p []byte) (int, error) {
	f.choose(p)
	n, err := f.out.Write(p)
	if f.direct && refusesDirect(err) {
		f.buffered = true
		f.choose(p)
		var rest int
		rest, err = f.out.Write(p[n:])
		n += rest
	}
	f.written += int64(n)
	if f.direct {
		f.started = f.written
	}
	if f.written-f.started >= writebackStep {
		startWriteback(f.File, f.started, f.written-f.started)
		f.started = f.written
	}
	return n, err
}

// choose decides whether p is written past the page cache.
func (f *osFile) choose(p []byte) {
	want := !f.buffered && f.written >= directFrom && f.written%DirectBlock == 0 && len(p) >= directWrite &&
		len(p)%DirectBlock == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(p)))%DirectBlock == 0
	if want == f.direct {
		return
	}
	if err := setDirect(f.File, want); err != nil {
		f.buffered = true
		return
	}
	f.direct = want
}

// refusesDirect tells whether err is how a file system says that it cannot write past the page cache.
func refusesDirect(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
}

// cloner is a file on a disk that may be able to share the bytes of files.
type cloner interface {
	// Clone gives the file, which is empty, all bytes of another one, without copying them: both have the same blocks
	// until one of them is written, which the other does not see. It returns a reader of what the file is now, or nil
	// where the disk cannot do that, or not with this other file; then nothing has happened.
	Clone(from *os.File) io.ReadCloser
}

// shared is a file whose bytes are there already: what is read of them is hashed, and not written once more.
type shared struct{ File }

func (shared) Write(p []byte) (int, error) { return len(p), nil }

// Share lets out have the bytes of a whole file instead of a copy, and returns what to read and to write then. A hard
// link would not do: whoever owns the other file may go on writing to it.
func Share(out File, r io.Reader) (from io.ReadCloser, to File) {
	source, isFile := r.(*os.File)
	c, can := out.(cloner)
	if !isFile || !can {
		return nil, out
	}
	if at, err := source.Seek(0, io.SeekCurrent); err != nil || at != 0 {
		return nil, out
	}
	if from = c.Clone(source); from == nil {
		return nil, out
	}
	return from, shared{out}
}
