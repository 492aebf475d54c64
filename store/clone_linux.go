package store

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Clone shares the blocks of a file on the same disk, where that is one of Btrfs, XFS and the like.
func (f *osFile) Clone(from *os.File) io.ReadCloser {
	if unix.IoctlFileClone(int(f.Fd()), int(from.Fd())) != nil {
		return nil
	}
	in, err := os.Open(f.Name())
	if err != nil {
		_ = f.Truncate(0)
		return nil
	}
	return in
}
