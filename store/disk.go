package store

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Permissions of what the store makes: for the owner and the group only.
const (
	folderMode  = 0o750
	fileMode    = 0o440 // blobs, manifests, snapshots: never written again
	catalogMode = 0o640
)

// disk is every way in which a running store changes the file system. A test puts a failing one in its place.
type disk interface {
	Mkdir(path string) error
	Create(path string) (file, error) // fails when path is there
	Link(from, to string) error
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	SyncDir(path string) error
	Commit(tx *bbolt.Tx) error
	Free(path string) (int64, error) // bytes that this process may still use
}

// file is a file being written.
type file interface {
	io.WriteCloser
	Sync() error
}

type osDisk struct{}

var _ disk = osDisk{}

func (osDisk) Mkdir(path string) error      { return os.Mkdir(path, folderMode) }
func (osDisk) Link(from, to string) error   { return os.Link(from, to) }
func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) Remove(path string) error     { return os.Remove(path) }
func (osDisk) RemoveAll(path string) error  { return os.RemoveAll(path) }

func (osDisk) Commit(tx *bbolt.Tx) error { return uncover(tx.Commit()) }

// uncover finds the system's error in one of bbolt's. When its file cannot grow, bbolt keeps nothing of the error but
// the text, path included.
func uncover(err error) error {
	var errno syscall.Errno
	if err == nil || errors.As(err, &errno) {
		return err
	}
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if strings.HasSuffix(err.Error(), full.Error()) {
			return full
		}
	}
	return err
}

func (osDisk) Create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, out: f}, nil
}

func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osDisk) Free(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// makeFolder makes a folder that may be there already. made tells whether it was not.
func makeFolder(d disk, path string) (made bool, err error) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return false, nil
	}
	if err := d.Mkdir(path); err != nil {
		return false, err
	}
	return true, nil
}

// writeFile makes a file with the given bytes and syncs it.
func writeFile(d disk, path string, data []byte) error {
	f, err := d.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// copyFile makes a synced copy, for file systems without hard links.
func copyFile(d disk, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := d.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Sync(); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}

// linkOrCopy makes to a hard link of from, or a synced copy where there can be no link. to must not be there.
func linkOrCopy(d disk, from, to string) error {
	err := d.Link(from, to)
	if !cannotLink(err) {
		return err
	}
	return copyFile(d, from, to)
}

// cannotLink tells whether err says that a hard link is impossible here, while a copy may not be.
func cannotLink(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.EXDEV, syscall.EMLINK, syscall.EOPNOTSUPP, syscall.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
