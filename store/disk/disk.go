// Package disk is the file system as package store uses it: files that are synced, linked, cloned and compared, and
// large ones that are written past the page cache.
package disk

import (
	"cmp"
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Permissions of what the store makes: for the owner and the group only.
const (
	// FolderMode is that of folders.
	FolderMode = 0o750
	fileMode   = 0o440
)

// Disk is every way in which a running store changes the file system. A test puts a failing one in its place.
type Disk interface {
	Mkdir(path string) error
	Create(path string) (File, error) // fails when path is there
	Link(from, to string) error
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	SyncDir(path string) error
	Free(path string) (int64, error) // bytes that this process may still use
}

// File is a file being written.
type File interface {
	io.WriteCloser
	Sync() error
}

// OS is the file system of this machine.
type OS struct {
	Mode os.FileMode // of the files that it makes; 0: for the owner and the group to read, since they are not written again
}

var _ Disk = OS{}

// Mkdir makes a folder.
func (OS) Mkdir(path string) error { return os.Mkdir(path, FolderMode) }

// Link makes to another name of the file from.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Rename gives a file or a folder another name, in place of a file that has it.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove removes a file or an empty folder.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll removes a folder with everything in it.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// Create makes a file.
func (d OS) Create(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, cmp.Or(d.Mode, fileMode))
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, out: f}, nil
}

// SyncDir brings the names in a folder to the disk.
func (OS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Free returns the bytes of the file system that this process may still use.
func (OS) Free(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// MakeFolder makes a folder that may be there already. made tells whether it was not.
func MakeFolder(d Disk, path string) (made bool, err error) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return false, nil
	}
	if err := d.Mkdir(path); err != nil {
		return false, err
	}
	return true, nil
}

// WriteFile makes a file with the given bytes and syncs it.
func WriteFile(d Disk, path string, data []byte) error {
	f, err := d.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return finish(f, err)
}

// finish syncs and closes a file to which everything was written, unless that has failed.
func finish(f File, err error) error {
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Copy makes a synced copy. to must not be there.
func Copy(d Disk, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := d.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return finish(out, err)
}

// LinkOrCopy makes to a hard link of from, or a synced copy where there can be no link. to must not be there.
func LinkOrCopy(d Disk, from, to string) error {
	err := d.Link(from, to)
	if !CannotLink(err) {
		return err
	}
	return Copy(d, from, to)
}

// CannotLink tells whether err says that a hard link is impossible here, while a copy may not be.
func CannotLink(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.EXDEV, syscall.EMLINK, syscall.EOPNOTSUPP, syscall.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
