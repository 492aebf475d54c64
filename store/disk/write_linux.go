package disk

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

// startWriteback asks the kernel to begin writing a range. It is a hint: the sync at the end decides.
func startWriteback(f *os.File, offset, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}

// setDirect turns writing past the page cache on or off.
func setDirect(f *os.File, on bool) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	flags &^= unix.O_DIRECT
	if on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err
}
