// Package files keeps files that belong to no version of a model, each named by the SHA-256 of its bytes and never
// written again. Whoever names them keeps the names elsewhere, such as in the documents of the box.
package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Files is a folder of files. It is safe for concurrent use.
type Files struct {
	folder  string
	disk    disk.Disk
	reserve int64      // bytes of the disk that Put leaves free
	mu      sync.Mutex // held while names appear and disappear
}

// newSuffix ends the name of a file that is being made.
const newSuffix = ".new"

// Open opens a folder, making it when it is not there, and removes what an interrupted Put has left. Put leaves reserve
// bytes of the disk free. Errors: Exhausted, Internal.
func Open(folder string, reserve int64) (*Files, error) { return open(folder, reserve, disk.OS{}) }

func open(folder string, reserve int64, d disk.Disk) (*Files, error) {
	f := &Files{folder: folder, disk: d, reserve: reserve}
	if _, err := disk.MakeFolder(d, folder); err != nil {
		return nil, fail("files.Open", "making a folder", err)
	}
	return f, f.remove("files.Open", func(name string) bool { return strings.HasSuffix(name, newSuffix) })
}

// digestOf returns the name of bytes.
func digestOf(data []byte) edgewise.Digest {
	sum := sha256.Sum256(data)
	return edgewise.Digest(hex.EncodeToString(sum[:]))
}

func (f *Files) path(d edgewise.Digest) string { return filepath.Join(f.folder, string(d)) }

// Put stores a file and returns its digest. The file survives a loss of power when Put returns nil. Errors: Exhausted
// when the disk is full or would go under its reserve, Internal.
func (f *Files) Put(data []byte) (edgewise.Digest, error) {
	const op = "files.Put"
	_, free, err := f.disk.Space(f.folder)
	if err != nil {
		return "", fail(op, "asking for the free room of the disk", err)
	}
	if free-int64(len(data)) < f.reserve {
		return "", edgewise.Errorf(op, edgewise.Exhausted, "the disk is too full: the file needs %d bytes, %d are free, "+
			"%d of them are reserved", len(data), free, f.reserve)
	}
	digest := digestOf(data)
	f.mu.Lock()
	defer f.mu.Unlock()
	made := f.path(digest) + newSuffix
	err = disk.WriteFile(f.disk, made, data)
	if err == nil {
		err = f.disk.Rename(made, f.path(digest))
	}
	if err != nil {
		_ = f.disk.Remove(made) // Open removes what stays
		return "", fail(op, "writing a file", err)
	}
	if err := f.disk.SyncDir(f.folder); err != nil {
		return "", fail(op, "writing a file", err)
	}
	return digest, nil
}

// Get returns the bytes of a file of at most limit bytes. Errors: NotFound, TooLarge, Corrupt when they are not those
// that were put, Internal.
func (f *Files) Get(digest edgewise.Digest, limit int64) ([]byte, error) {
	const op = "files.Get"
	if !isDigest(string(digest)) {
		return nil, edgewise.Errorf(op, edgewise.NotFound, "there is no file %.70q", digest)
	}
	info, err := os.Stat(f.path(digest))
	if errors.Is(err, os.ErrNotExist) {
		return nil, edgewise.Errorf(op, edgewise.NotFound, "there is no file %s", digest)
	}
	if err == nil && info.Size() > limit {
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "the file has %d bytes: at most %d are allowed", info.Size(), limit)
	}
	data, err := os.ReadFile(f.path(digest))
	if err != nil {
		return nil, fail(op, "reading a file", err)
	}
	if digestOf(data) != digest {
		return nil, edgewise.Errorf(op, edgewise.Corrupt, "the file %s is damaged: the disk has changed its bytes", digest)
	}
	return data, nil
}

func isDigest(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// Sweep removes every file that keep returns false for. The caller puts no file meanwhile that keep does not know yet.
// Errors: Internal.
func (f *Files) Sweep(keep func(edgewise.Digest) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove("files.Sweep", func(name string) bool { return isDigest(name) && !keep(edgewise.Digest(name)) })
}

// remove removes the files whose names are garbage.
func (f *Files) remove(op string, garbage func(name string) bool) error {
	entries, err := os.ReadDir(f.folder)
	for _, e := range entries {
		if garbage(e.Name()) {
			err = errors.Join(err, f.disk.Remove(filepath.Join(f.folder, e.Name())))
		}
	}
	if err != nil {
		return fail(op, "removing files", err)
	}
	return nil
}

// fail wraps an error of the disk. Paths of this machine stay out of the message.
func fail(op, doing string, err error) error {
	kind := edgewise.Internal
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			kind = edgewise.Exhausted
		}
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return edgewise.Errorf(op, kind, "%s: %w", doing, err)
}
