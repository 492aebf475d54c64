// Package disk is the file system as package store uses it: files that are synced, linked, cloned and compared, and
// large ones that are written past the page cache.
package disk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
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
	Space(path string) (total, free int64, err error)
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

// Space returns the bytes of the file system, and those of them that this process may still use.
func (OS) Space(path string) (total, free int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), nil
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
	never := []error{syscall.EPERM, syscall.EXDEV, syscall.EMLINK, syscall.EOPNOTSUPP, syscall.ENOSYS}
	return slices.ContainsFunc(never, func(e error) bool { return errors.Is(err, e) })
}

const (
	readBytes = 1 << 20 // read at a time, at most
	// maxEmptyReads bounds how often in a row a reader may return neither bytes nor an error.
	maxEmptyReads = 100
)

// SameFile tells whether two paths lead to the same bytes on the disk.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// readBuffer returns memory to read a file with: no more than the file needs, since most files of a store are small.
func readBuffer(f *os.File) []byte {
	size := int64(readBytes)
	if info, err := f.Stat(); err == nil {
		size = min(size, info.Size()+1) // one more finds the end
	}
	return make([]byte, size)
}

// SameContent tells whether two files hold the same bytes.
func SameContent(ctx context.Context, a, b string) (bool, error) {
	x, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = x.Close() }()
	y, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer func() { _ = y.Close() }()
	left, right := readBuffer(x), readBuffer(y)
	right = right[:min(len(left), len(right))]
	left = left[:len(right)]
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, endX, failX := Fill(x, left)
		m, endY, failY := Fill(y, right)
		if err := errors.Join(failX, failY); err != nil {
			return false, err
		}
		if !bytes.Equal(left[:n], right[:m]) {
			return false, nil
		}
		if endX && endY {
			return true, nil
		}
	}
}

// Hash returns the SHA-256 of a file.
func Hash(ctx context.Context, path string) (edgewise.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum, buf := sha256.New(), readBuffer(f)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buf)
		_, _ = sum.Write(buf[:n]) // never fails
		if err == io.EOF {
			return edgewise.Digest(hex.EncodeToString(sum.Sum(nil))), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// Fill reads until buf is full or r ends. Only io.EOF itself is an end: an error that wraps it, or a body that was cut
// off, must not look like one that ended.
func Fill(r io.Reader, buf []byte) (n int, ended bool, err error) {
	for empty := 0; n < len(buf) && err == nil; {
		var m int
		m, err = r.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if m > 0 {
			empty = 0
			continue
		}
		if empty++; err == nil && empty >= maxEmptyReads {
			err = io.ErrNoProgress
		}
	}
	return n, false, err
}

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
	if f.direct && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)) { // how a file system refuses it
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
