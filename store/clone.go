package store

import (
	"io"
	"os"
)

// cloner is a file on a disk that may be able to share the bytes of files.
type cloner interface {
	// Clone gives the file, which is empty, all bytes of another one, without copying them: both have the same blocks
	// until one of them is written, which the other does not see. It returns a reader of what the file is now, or nil
	// where the disk cannot do that, or not with this other file; then nothing has happened.
	Clone(from *os.File) io.ReadCloser
}

// shared is a file whose bytes are there already: what is read of them is hashed, and not written once more.
type shared struct{ file }

func (shared) Write(p []byte) (int, error) { return len(p), nil }

// share lets out have the bytes of a whole file instead of a copy, and returns what to read and to write then. A hard
// link would not do: whoever owns the other file may go on writing to it.
func share(out file, r io.Reader) (from io.ReadCloser, to file) {
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
