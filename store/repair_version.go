package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// judge decides what becomes of one version that has a folder, an entry, or both.
func (r *repair) judge(ctx context.Context, id edgewise.ModelID) error {
	folder, entry := r.root.version(id), r.old.versions[id]
	if _, err := os.Lstat(folder); errors.Is(err, os.ErrNotExist) {
		return r.missing(ctx, id, entry)
	}
	_, err := os.Lstat(filepath.Join(folder, pendingFile))
	marked := err == nil
	_, deleted := r.old.deleted[id]
	switch {
	case marked && entry == nil && r.complete:
		r.report.find(id, r.root.relative(folder), "the next start removes it", "its upload or deletion did not finish")
		return nil
	case marked && entry == nil:
		return r.quarantine(id, "its upload or deletion had not finished when the catalog was lost")
	case deleted:
		return r.quarantine(id, "it was deleted, and its folder is there")
	}
	return r.keep(ctx, id, entry)
}

// missing decides about a version without a folder. What the catalog itself names is made again out of blobs; what only
// a snapshot names was deleted after the snapshot, as far as anybody knows.
func (r *repair) missing(ctx context.Context, id edgewise.ModelID, entry *edgewise.Version) error {
	if !r.readable {
		r.report.find(id, "", "taken as deleted", "a snapshot names it, and it has no folder")
		return nil
	}
	for _, f := range entry.Files {
		if err := r.content(ctx, r.root.blob(f.Digest), f); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.report.find(id, "", "lost", "it has no folder, and its blobs are not whole: %v", err)
			return nil
		}
	}
	return r.keep(ctx, id, entry)
}

// keep makes the version whole and takes it into the new catalog, or puts it in quarantine.
func (r *repair) keep(ctx context.Context, id edgewise.ModelID, entry *edgewise.Version) error {
	v, err := readManifest(r.root.version(id), id)
	if err != nil || (r.complete && entry != nil && v.Digest != entry.Digest) {
		if entry == nil {
			return r.quarantine(id, fmt.Sprintf("its manifest cannot be read and the catalog does not know it: %v", database.Bare(err)))
		}
		v = entry
		if err := r.rewriteManifest(v); err != nil {
			return err
		}
	}
	r.report.count(v)
	for _, f := range v.Files {
		if err := r.mend(ctx, id, f); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return r.quarantine(id, err.Error())
		}
	}
	if err := r.setExtraAside(v); err != nil {
		return err
	}
	if entry == nil {
		r.report.find(id, r.root.relative(r.root.version(id)), "taken into the catalog", "the catalog did not name it")
	}
	r.next.versions[id] = v
	return nil
}

// rewriteManifest makes the manifest again from the catalog's entry.
func (r *repair) rewriteManifest(v *edgewise.Version) error {
	folder := r.root.version(v.ID)
	path := filepath.Join(folder, manifestFile)
	if err := os.MkdirAll(r.root.files(v.ID), disk.FolderMode); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		if _, err := r.setAside(path); err != nil {
			return err
		}
	}
	fresh := *v
	text, err := encodeManifest(&fresh)
	if err != nil {
		return err
	}
	v.Digest = fresh.Digest
	if err := disk.WriteFile(r.disk, path, text); err != nil {
		return err
	}
	r.report.find(v.ID, r.root.relative(path), "written again from the catalog", "manifest was missing or wrong")
	return errors.Join(r.disk.SyncDir(folder), r.disk.SyncDir(filepath.Dir(folder)), r.disk.SyncDir(r.root.models()))
}

// mend makes sure that a file and its blob are there and whole. The error says why they cannot be.
func (r *repair) mend(ctx context.Context, id edgewise.ModelID, f edgewise.File) error {
	path, blob := filepath.Join(r.root.files(id), filepath.FromSlash(f.Path)), r.root.blob(f.Digest)
	broken := r.content(ctx, path, f)
	if disk.SameFile(path, blob) {
		return broken
	}
	blobBroken := r.content(ctx, blob, f)
	switch {
	case broken == nil && blobBroken == nil:
		return nil
	case broken == nil:
		if _, err := os.Lstat(blob); err == nil {
			if _, err := r.setAside(blob); err != nil {
				return err
			}
		}
		if err := r.blobs.place(path, f.Digest); err != nil {
			return err
		}
		r.report.find(id, r.root.relative(blob), "made again from the version's folder", "blob of %v", blobBroken)
		return r.disk.SyncDir(r.blobs.folder(f.Digest))
	case blobBroken == nil:
		if err := r.restore(path, blob, r.root.files(id)); err != nil {
			return err
		}
		r.report.find(id, r.root.relative(path), "made again from its blob", "%v", broken)
		return nil
	}
	return broken
}

// restore puts the whole blob in the place of a file somewhere below folder.
func (r *repair) restore(path, blob, folder string) error {
	if _, err := os.Lstat(path); err == nil {
		if _, err := r.setAside(path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), disk.FolderMode); err != nil {
		return err
	}
	if err := disk.LinkOrCopy(r.disk, blob, path); err != nil {
		return err
	}
	for path != folder {
		path = filepath.Dir(path)
		if err := r.disk.SyncDir(path); err != nil {
			return err
		}
	}
	return r.disk.SyncDir(filepath.Dir(folder))
}

// setExtraAside moves files that a version's list does not name out of its folder: a backend could read them.
func (r *repair) setExtraAside(v *edgewise.Version) error {
	return r.root.extraFiles(v, func(path string) error {
		aside, err := r.setAside(path)
		if err == nil {
			r.report.find(v.ID, r.root.relative(path), "moved to "+r.root.relative(aside), "file does not belong to the version")
		}
		return err
	})
}

// quarantine moves a version's folder away and writes the reason into it.
func (r *repair) quarantine(id edgewise.ModelID, reason string) error {
	folder := r.root.version(id)
	aside, err := r.setAside(folder)
	if err != nil {
		return err
	}
	r.report.find(id, r.root.relative(folder), "moved to "+r.root.relative(aside), "%s", reason)
	if err := disk.WriteFile(r.disk, filepath.Join(aside, reasonFile), []byte(reason+"\n")); err != nil {
		return err
	}
	return r.disk.SyncDir(aside)
}
