package onnxfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/edgewise-ai/edgewise"
)

// File is what an ONNX file says of itself. It belongs to whoever called Read.
type File struct {
	// A Shape is nil when the file does not say how many dimensions there are. The Type of an output is InvalidType when
	// the file leaves it to the runtime. Nodes, Operators and Parameters include those of subgraphs and functions.
	edgewise.Inspection
	IRVersion int64
	Graph     *Graph
	Functions []Function
	Files     []string // the files that hold external data, sorted, relative to the dir Read was given
}

// Read reads the ONNX file at the slash-separated path file inside dir, and looks at the files its external data is in.
// Both must be regular files reached without a link; nothing outside dir is opened. It holds a few KiB of the file at a
// time, and what it returns is bounded by lim.Kept.
//
// Errors: Invalid (the reason, with the thing it is about), TooLarge (a limit of lim), Unsupported (well formed, but
// nothing this box runs), Internal (the disk).
func Read(dir, file string, lim Limits) (*File, error) {
	if err := edgewise.CheckPath(file); err != nil {
		return nil, invalid("model file: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, edgewise.Errorf(operation, edgewise.Internal, "model folder: %w", err)
	}
	defer root.Close()
	d := folder{root}
	f, size, err := d.open(file)
	if err != nil {
		return nil, within(err, "model file")
	}
	defer f.Close()
	parsed, err := parse(f, size, disk{stat: d.stat, base: path.Dir(file)}, lim)
	return parsed, within(err, "model file %.64q", file)
}

// parse reads size bytes of from.
func parse(from io.ReaderAt, size int64, d disk, lim Limits) (*File, error) {
	d.sizes = map[string]int64{}
	w := &walker{
		source:   source{from: from, size: size},
		tally:    tally{Limits: lim},
		disk:     d,
		content:  newContent(),
		interned: map[string]string{},
	}
	f, err := w.model()
	if err != nil {
		return nil, err
	}
	for location := range w.sizes {
		f.Files = append(f.Files, path.Join(d.base, location))
	}
	slices.Sort(f.Files)
	return f, nil
}

// folder gives access to the regular files below a directory and to nothing else: no link is followed, not even one
// that stays inside.
type folder struct{ root *os.Root }

// stat returns the size of a regular file.
func (d folder) stat(name string) (int64, error) {
	info, err := d.lstat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// open opens a regular file. The file opened is the one looked at: whoever swaps it in between is refused.
func (d folder) open(name string) (*os.File, int64, error) {
	info, err := d.lstat(name)
	if err != nil {
		return nil, 0, err
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, edgewise.Errorf(operation, edgewise.Internal, "file %.64q: %w", name, err)
	}
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		f.Close()
		return nil, 0, invalid("file %.64q was replaced while it was opened", name)
	}
	return f, opened.Size(), nil
}

// lstat describes a regular file, looking at each folder on the way.
func (d folder) lstat(name string) (fs.FileInfo, error) {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if info, err := d.root.Lstat(name[:i]); err == nil && !info.IsDir() {
			return nil, invalid("file %.64q: %.64q is not a folder but %s", name, name[:i], kindOf(info))
		}
	}
	info, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, invalid("file %.64q is not among the model's files", name)
	case err != nil:
		return nil, edgewise.Errorf(operation, edgewise.Internal, "file %.64q: %w", name, err)
	case !info.Mode().IsRegular():
		return nil, invalid("file %.64q is not a regular file but %s", name, kindOf(info))
	}
	return info, nil
}

// kindOf says what a file is that is not a regular one.
func kindOf(info fs.FileInfo) string {
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeDir:
		return "a folder"
	case fs.ModeNamedPipe:
		return "a pipe"
	case fs.ModeSocket:
		return "a socket"
	case 0:
		return "a regular file"
	}
	return "a device"
}

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
