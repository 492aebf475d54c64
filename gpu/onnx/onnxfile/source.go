package onnxfile

import (
	"errors"
	"io"

	"github.com/edgewise-ai/edgewise"
)

// windowBytes is how much of the file is in memory at a time.
const windowBytes = 32 << 10

// source reads a file through a window, so that skipping costs nothing and reading field by field costs few calls.
type source struct {
	from   io.ReaderAt
	size   int64
	window []byte // the bytes at start
	start  int64
	space  [windowBytes]byte
}

// peek returns the bytes at pos: at least one, at most want, fewer than want only at the end of the file. They are
// valid until the next call. pos is inside the file.
func (s *source) peek(pos int64, want int) ([]byte, error) {
	if pos < s.start || pos+int64(want) > s.start+int64(len(s.window)) {
		if err := s.fill(pos); err != nil {
			return nil, err
		}
	}
	here := s.window[pos-s.start:]
	return here[:min(want, len(here))], nil
}

// fill moves the window to pos.
func (s *source) fill(pos int64) error {
	n := min(int64(len(s.space)), s.size-pos)
	got, err := s.from.ReadAt(s.space[:n], pos)
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return edgewise.Errorf(operation, edgewise.Internal, "reading %d bytes at byte %d: %w", n, pos, err)
	}
	s.window, s.start = s.space[:n], pos
	return nil
}

// read fills all of into with the bytes at pos, past the window when they are many.
func (s *source) read(into []byte, pos int64) error {
	if len(into) <= len(s.space) {
		for done := 0; done < len(into); {
			b, err := s.peek(pos+int64(done), len(into)-done)
			if err != nil {
				return err
			}
			done += copy(into[done:], b)
		}
		return nil
	}
	if got, err := s.from.ReadAt(into, pos); got < len(into) {
		return edgewise.Errorf(operation, edgewise.Internal, "reading %d bytes at byte %d: %w", len(into), pos, err)
	}
	return nil
}
