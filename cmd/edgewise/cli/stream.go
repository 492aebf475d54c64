package cli

import (
	"context"
	"os"
	"slices"
	"time"
)

// Stream is the standard input or output of a program that ends with Context. A signal does not interrupt a read or a
// write, which lasts for as long as nobody writes or reads at the other end: here it returns with the context's error.
// What it has begun stays in progress, so nothing may use the file after that.
type Stream struct {
	Context context.Context
	File    *os.File
}

// lastWrite is how long a write may take once the context is over: what a program says at its end still arrives.
const lastWrite = time.Second

// transfer is the result of a read or a write.
type transfer struct {
	bytes int
	err   error
}

// Read reads from the file. Errors: those of the file; the context's.
func (s Stream) Read(p []byte) (int, error) {
	data := make([]byte, len(p))
	read := begin(s.File.Read, data)
	select {
	case t := <-read:
		copy(p, data[:t.bytes])
		return t.bytes, t.err
	case <-s.Context.Done():
		return 0, s.Context.Err()
	}
}

// Write writes to the file. Errors: those of the file; the context's, then part of p may be written.
func (s Stream) Write(p []byte) (int, error) {
	written := begin(s.File.Write, slices.Clone(p))
	select {
	case t := <-written:
		return t.bytes, t.err
	case <-s.Context.Done():
	}
	select {
	case t := <-written:
		return t.bytes, t.err
	case <-time.After(lastWrite):
		return 0, s.Context.Err()
	}
}

// begin starts a transfer of data, which belongs to it from here on.
func begin(run func([]byte) (int, error), data []byte) <-chan transfer {
	done := make(chan transfer, 1)
	go func() {
		n, err := run(data)
		done <- transfer{n, err}
	}()
	return done
}

// Stat describes the file.
func (s Stream) Stat() (os.FileInfo, error) { return s.File.Stat() }
