package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/api/repository"
)

// snapshot is a tree as it was listed once. It never changes.
type snapshot struct {
	tree    *Tree
	entries map[string]*entry        // by name; folders too
	folders map[string][]fs.DirEntry // by name, sorted
	missing error                    // why there is no list; nil: there is one
}

var (
	_ repository.Remote = (*snapshot)(nil)
	_ fs.ReadDirFS      = (*snapshot)(nil)
	_ fs.StatFS         = (*snapshot)(nil)
)

// newSnapshot makes a tree of a list, and counts the names that cannot be those of files. A name that is also a folder's
// is the folder's.
func newSnapshot(t *Tree, list []fetch.Entry) (s *snapshot, refused int) {
	s = &snapshot{tree: t, entries: map[string]*entry{".": {folder: true}}, folders: map[string][]fs.DirEntry{}}
	for _, e := range list {
		name, folder := strings.CutSuffix(e.Name, "/")
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\x00\\") {
			refused++
			continue
		}
		if s.addFolders(path.Dir(name)); folder {
			s.addFolders(name)
		} else if s.entries[name] == nil {
			s.entries[name] = &entry{Entry: e}
		}
	}
	for name, e := range s.entries {
		if name != "." {
			s.folders[path.Dir(name)] = append(s.folders[path.Dir(name)], dirEntry{path.Base(name), e})
		}
	}
	for _, entries := range s.folders {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return s, refused
}

func (s *snapshot) addFolders(name string) {
	for e := s.entries[name]; e == nil || !e.folder; e = s.entries[name] {
		s.entries[name] = &entry{folder: true}
		name = path.Dir(name)
	}
}

// entry is one file or folder.
type entry struct {
	fetch.Entry
	folder bool
}

// dirEntry is an entry under its name.
type dirEntry struct {
	name string
	*entry
}

func (d dirEntry) Name() string               { return d.name }
func (d dirEntry) Size() int64                { return d.Entry.Size }
func (d dirEntry) IsDir() bool                { return d.folder }
func (d dirEntry) ModTime() time.Time         { return time.Unix(0, d.Changed) }
func (d dirEntry) Info() (fs.FileInfo, error) { return d, nil }
func (d dirEntry) Type() fs.FileMode          { return d.Mode().Type() }

// Sys returns what tells states of the file apart.
func (d dirEntry) Sys() any { return repository.Tag(d.Key()) }

func (d dirEntry) Mode() fs.FileMode {
	if d.folder {
		return fs.ModeDir | 0o500
	}
	return 0o400
}

func (s *snapshot) find(op, name string) (*entry, error) {
	e, err := s.entries[name], s.missing
	if err == nil && e == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return e, nil
}

// Stat implements fs.StatFS.
func (s *snapshot) Stat(name string) (fs.FileInfo, error) {
	e, err := s.find("stat", name)
	if err != nil {
		return nil, err
	}
	return dirEntry{path.Base(name), e}, nil
}

// ReadDir implements fs.ReadDirFS.
func (s *snapshot) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := s.find("open", name)
	if err == nil && !e.folder {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return s.folders[name], err
}

// Open opens a file that was fetched. What is read is what was fetched, or an error.
func (s *snapshot) Open(name string) (fs.File, error) {
	e, err := s.find("open", name)
	if err != nil {
		return nil, err
	}
	digest := s.tree.digest(e.Entry)
	if e.folder || digest == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := os.Open(s.tree.file(digest))
	if err != nil {
		return nil, err
	}
	return &file{File: f, digest: digest, hash: sha256.New(), info: dirEntry{path.Base(name), e}}, nil
}

// file reads a fetched file. A read fails at the end of a file whose bytes the disk has changed, which is removed, so
// that it is fetched again.
type file struct {
	*os.File
	digest string
	hash   hash.Hash
	info   dirEntry
}

// Stat describes the entry.
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

// Read implements io.Reader.
func (f *file) Read(data []byte) (int, error) {
	n, err := f.File.Read(data)
	_, _ = f.hash.Write(data[:n])
	if err == io.EOF && hex.EncodeToString(f.hash.Sum(nil)) != f.digest { //nolint:errorlint // os.File returns it as it is
		_ = os.Remove(f.Name())
		err = edgewise.Errorf("remote.Read", edgewise.Corrupt,
			"%s is damaged: the disk has changed its bytes; it is fetched again", f.info.Entry.Name)
	}
	return n, err
}

// digest returns the digest of a file that was fetched; "" when it was not.
func (t *Tree) digest(e fetch.Entry) string {
	data, err := os.ReadFile(filepath.Join(t.folder, "keys", e.Key()))
	digest := string(data)
	if err != nil || len(digest) != 2*sha256.Size || strings.Trim(digest, "0123456789abcdef") != "" {
		return ""
	}
	if info, err := os.Lstat(t.file(digest)); err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return ""
	}
	return digest
}

func (t *Tree) file(digest string) string { return filepath.Join(t.folder, "files", digest) }

// Fetch implements repository.Remote.
func (s *snapshot) Fetch(ctx context.Context, names []string) error {
	var lacking []fetch.Entry
	total := int64(0)
	for _, name := range names {
		e, err := s.find("fetch", name)
		if err != nil {
			return err
		}
		if total += e.Entry.Size; s.tree.digest(e.Entry) == "" {
			lacking = append(lacking, e.Entry)
		}
	}
	if most := s.tree.maxBytes; most > 0 && total > most {
		return edgewise.Errorf("remote.Fetch", edgewise.TooLarge, "%s: the files have %d bytes: at most %d are allowed",
			s.tree.url, total, most)
	}
	for part := range slices.Chunk(lacking, fetch.MaxPage) {
		if err := s.tree.get(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Keep implements repository.Remote.
func (s *snapshot) Keep(dir string) error {
	if s.missing != nil {
		return s.missing
	}
	var entries []fetch.Entry
	for name, e := range s.entries {
		if dir == "." || strings.HasPrefix(name, dir+"/") {
			if e.folder {
				e = &entry{Entry: fetch.Entry{Name: name + "/"}}
			}
			if name != "." {
				entries = append(entries, e.Entry)
			}
		}
	}
	slices.SortFunc(entries, func(a, b fetch.Entry) int { return strings.Compare(a.Name, b.Name) })
	return s.tree.keep(dir, entries)
}
