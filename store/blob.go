package store

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// blobs is the folder of content-addressed files. A blob is complete from the moment it has its name, and never
// written again.
type blobs struct {
	root layout
	disk disk.Disk
}

func (b blobs) has(d edgewise.Digest) bool {
	info, err := os.Lstat(b.root.blob(d))
	return err == nil && info.Mode().IsRegular()
}

// place gives the complete, synced file at path the blob's name too, replacing what was there. The caller syncs the
// folder, see folder.
func (b blobs) place(path string, d edgewise.Digest) error {
	to := b.root.blob(d)
	made, err := disk.MakeFolder(b.disk, filepath.Dir(to))
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
	if err := disk.LinkOrCopy(b.disk, path, partial); err != nil {
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
	if disk.CannotLink(err) {
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
