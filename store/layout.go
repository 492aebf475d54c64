package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Names inside the data folder.
const (
	catalogFile     = "catalog.db"
	blobsFolder     = "blobs"
	modelsFolder    = "models"
	stagingFolder   = "staging"
	snapshotsFolder = "snapshots"

	manifestFile = "manifest.json"
	filesFolder  = "files"
	pendingFile  = "pending"    // marks a version folder whose transaction has not been seen to finish
	linkFile     = "link"       // a hard link on its way into filesFolder
	reasonFile   = "reason.txt" // why a version was quarantined
	newSuffix    = ".new"       // a catalog being made

	catalogPrefix = "catalog-" // of the names of snapshots
)

// layout is the data folder. Its methods are the only place where names inside it are put together.
type layout string

func (l layout) join(parts ...string) string {
	return filepath.Join(append([]string{string(l)}, parts...)...)
}

func (l layout) catalog() string    { return l.join(catalogFile) }
func (l layout) blobs() string      { return l.join(blobsFolder) }
func (l layout) models() string     { return l.join(modelsFolder) }
func (l layout) staging() string    { return l.join(stagingFolder) }
func (l layout) snapshots() string  { return l.join(snapshotsFolder) }
func (l layout) quarantine() string { return l.join(database.QuarantineFolder) }

func (l layout) blob(d edgewise.Digest) string { return l.join(blobsFolder, string(d[:2]), string(d)) }

func (l layout) model(name string) string { return l.join(modelsFolder, name) }

func (l layout) version(id edgewise.ModelID) string {
	return l.join(modelsFolder, id.Name, strconv.FormatInt(id.Version, 10))
}

func (l layout) files(id edgewise.ModelID) string { return filepath.Join(l.version(id), filesFolder) }

func (l layout) snapshot(at time.Time) string {
	return database.SnapshotPath(l.snapshots(), catalogPrefix, at)
}

// relative returns p as seen from the data folder, for messages.
func (l layout) relative(p string) string {
	if r, err := filepath.Rel(string(l), p); err == nil {
		return r
	}
	return p
}

// folders lists the folders that Open makes.
func (l layout) folders() []string {
	return []string{l.blobs(), l.models(), l.staging(), l.snapshots()}
}

// stagingBytes is the length of the random part of a staging folder's name.
const stagingBytes = 16

func (l layout) newStaging() string {
	var b [stagingBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return filepath.Join(l.staging(), hex.EncodeToString(b[:]))
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}

func isStaging(name string) bool { return isHex(name, 2*stagingBytes) }

const digestLength = 64

// isBlob tells whether a file called name inside the folder blobs/prefix is a blob or one being made.
func isBlob(prefix, name string) (d edgewise.Digest, partial, ok bool) {
	name, partial = strings.CutSuffix(name, database.PartialSuffix)
	if !isHex(name, digestLength) || name[:2] != prefix {
		return "", false, false
	}
	return edgewise.Digest(name), partial, true
}

// parseVersion reads the name of a version folder: a positive decimal number as layout.version writes it.
func parseVersion(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}

// versionFolders lists the folders that look like versions, whatever the catalog says.
func (l layout) versionFolders() ([]edgewise.ModelID, error) {
	names, err := os.ReadDir(l.models())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var ids []edgewise.ModelID
	for _, name := range names {
		if !name.IsDir() || edgewise.CheckName(name.Name()) != nil {
			continue
		}
		versions, err := os.ReadDir(filepath.Join(l.models(), name.Name()))
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			if n, ok := parseVersion(v.Name()); ok && v.IsDir() {
				ids = append(ids, edgewise.ModelID{Name: name.Name(), Version: n})
			}
		}
	}
	return ids, nil
}

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
	partial := to + database.PartialSuffix
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
