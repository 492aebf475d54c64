package onnxfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/edgewise-ai/edgewise"
)

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
