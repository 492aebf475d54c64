package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
)

// blobs is the folder of content-addressed files. A blob is complete from the moment it has its name, and never
// written again.
type blobs struct {
	root layout
	disk disk
}

func (b blobs) has(d edgewise.Digest) bool {
	info, err := os.Lstat(b.root.blob(d))
	return err == nil && info.Mode().IsRegular()
}

// place gives the complete, synced file at path the blob's name too, replacing what was there. The caller syncs the
// folder, see folder.
func (b blobs) place(path string, d edgewise.Digest) error {
	to := b.root.blob(d)
	made, err := makeFolder(b.disk, filepath.Dir(to))
	if err != nil {
		return err
	}
	if made {
		if err := b.disk.SyncDir(b.root.blobs()); err != nil {
			return err
		}
	}
	partial := to + partialSuffix
	if err := b.clear(partial); err != nil {
		return err
	}
	if err := linkOrCopy(b.disk, path, partial); err != nil {
		return err
	}
	return b.disk.Rename(partial, to)
}

// fetch puts the blob in the place of the file at path, by way of spare, a free name on the same disk. Where the disk
// takes no further link it returns false and leaves path as it was.
func (b blobs) fetch(d edgewise.Digest, path, spare string) (linked bool, err error) {
	if err := b.clear(spare); err != nil {
		return false, err
	}
	err = b.disk.Link(b.root.blob(d), spare)
	if cannotLink(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, b.disk.Rename(spare, path)
}

func (b blobs) clear(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return b.disk.Remove(path)
}

func (b blobs) drop(d edgewise.Digest) error { return b.disk.Remove(b.root.blob(d)) }

// folder returns the folder in which a blob's name stands.
func (b blobs) folder(d edgewise.Digest) string { return filepath.Dir(b.root.blob(d)) }

// sameFile tells whether two paths lead to the same bytes on the disk.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// sameContent tells whether two files hold the same bytes.
func sameContent(ctx context.Context, a, b string) (bool, error) {
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
	left, right := make([]byte, bufferBytes), make([]byte, bufferBytes)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, endX, failX := fill(x, left)
		m, endY, failY := fill(y, right)
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

// hashFile returns the SHA-256 of a file.
func hashFile(ctx context.Context, path string) (edgewise.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum, buf := sha256.New(), make([]byte, bufferBytes)
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
