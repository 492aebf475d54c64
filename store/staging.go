package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Staging is an upload in flight: a folder that fills with files and becomes a version when it is put. It holds one of
// Options.MaxUploads slots until it is put or discarded. Its methods wait for each other.
type Staging struct {
	store    *Store
	folder   string
	declared int64 // bytes of all files, -1 when not declared
	shared   bool  // its slot is that of a batch

	mu       sync.Mutex
	files    map[string]edgewise.File // by Path
	folders  map[string]bool          // made below files, as the author wrote them
	total    int64                    // bytes of files
	promised int64                    // bytes declared and not yet written
	failed   error                    // of the Add that left the folder in an unknown state
	ended    bool                     // put or discarded: holds no slot any more
}

// Begin starts an upload of size bytes, -1 when that is not known. The caller ends it with Put or Discard.
//
// Kinds of error: Invalid for another negative size, TooLarge over Options.MaxVersionBytes, Busy when
// Options.MaxUploads are in flight, Exhausted when it would go under Options.Reserve.
func (s *Store) Begin(ctx context.Context, size int64) (*Staging, error) {
	const op = "store.Begin"
	if err := ctx.Err(); err != nil {
		return nil, fail(op, edgewise.ModelID{}, "beginning an upload", err)
	}
	if size < -1 {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "declared size %d is negative", size)
	}
	if size > s.options.MaxVersionBytes {
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "the upload has %d bytes: at most %d are allowed", size,
			s.options.MaxVersionBytes)
	}
	if err := s.budget.enter(op, size); err != nil {
		return nil, err
	}
	g := s.staging(size)
	if err := g.prepare(); err != nil {
		return nil, errors.Join(fail(op, edgewise.ModelID{}, "making a folder for the upload", err), g.Discard())
	}
	return g, nil
}

// staging returns a staging whose folder is not made yet, and whose slot is held already.
func (s *Store) staging(size int64) *Staging {
	return &Staging{
		store: s, folder: s.root.newStaging(), declared: size, promised: max(size, 0),
		files: make(map[string]edgewise.File), folders: make(map[string]bool),
	}
}

func (g *Staging) prepare() error {
	d := g.store.disk
	if err := d.Mkdir(g.folder); err != nil {
		return err
	}
	if err := d.Mkdir(g.Dir()); err != nil {
		return err
	}
	return disk.WriteFile(d, filepath.Join(g.folder, pendingFile), nil)
}

// Dir returns the folder in which the files that were added stand under their paths. They may be read until Put or
// Discard.
func (g *Staging) Dir() string { return filepath.Join(g.folder, filesFolder) }

// Add reads r to its end into the file called path and returns its size and SHA-256. size is what the sender declared,
// -1 when nothing. Memory does not grow with the file. Between reads it stops when ctx is done; it cannot interrupt a
// read that waits.
//
// Kinds of error: Invalid for a path that edgewise.CheckPath refuses, that is there already or that is both file and
// folder, for a size that is not the declared one, and for a reader that fails without a kind of its own; TooLarge over
// Options.MaxVersionBytes or Options.MaxFiles; Exhausted when the disk is full or would go under Options.Reserve;
// Conflict after Put or Discard. An Add that began to write and failed spoils the upload: what is left is Discard.
func (g *Staging) Add(ctx context.Context, path string, size int64, r io.Reader) (edgewise.File, error) {
	const op = "store.Add"
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(op); err != nil {
		return edgewise.File{}, err
	}
	if err := g.admit(op, path, size); err != nil {
		return edgewise.File{}, err
	}
	f, err := g.write(ctx, path, size, r)
	if err != nil {
		g.failed = fail(op, edgewise.ModelID{}, "writing file "+strconv.Quote(path), err)
		return edgewise.File{}, g.failed
	}
	g.files[path] = f
	g.total += f.Size
	return f, nil
}

// AddStored adds a file of a stored version: a link to its blob, or a copy where none can be. NotFound: it is gone.
func (g *Staging) AddStored(f edgewise.File) error {
	const op = "store.AddStored"
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := errors.Join(g.usable(op), g.admit(op, f.Path, f.Size)); err != nil {
		return err
	}
	err := g.makeParents(f.Path)
	if err == nil {
		err = disk.LinkOrCopy(g.store.disk, g.store.root.blob(f.Digest), g.path(f))
	}
	if errors.Is(err, os.ErrNotExist) {
		err = refuse(op, edgewise.NotFound, edgewise.ModelID{}, "file %q is not stored any more", f.Path)
	}
	if err != nil {
		g.failed = fail(op, edgewise.ModelID{}, "linking file "+strconv.Quote(f.Path), err)
		return g.failed
	}
	g.files[f.Path], g.total = f, g.total+f.Size
	return nil
}

func (g *Staging) usable(op string) error {
	if g.ended {
		return edgewise.Errorf(op, edgewise.Conflict, "the upload was put or discarded already")
	}
	if g.failed != nil {
		return edgewise.Errorf(op, edgewise.Conflict, "the upload failed earlier: %w", g.failed)
	}
	return nil
}

// admit checks what can be checked before a byte is read.
func (g *Staging) admit(op, path string, size int64) error {
	none := edgewise.ModelID{}
	if err := edgewise.CheckPath(path); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "%w", err)
	}
	if len(g.files) >= g.store.options.MaxFiles {
		return refuse(op, edgewise.TooLarge, none, "file %q is one too many: at most %d files are allowed", path,
			g.store.options.MaxFiles)
	}
	if _, there := g.files[path]; there {
		return invalid(op, none, "file %q was sent twice", path)
	}
	if g.folders[path] {
		return invalid(op, none, "file %q is also a folder", path)
	}
	for parent := range parents(path) {
		if _, there := g.files[parent]; there {
			return invalid(op, none, "file %q would be inside file %q", path, parent)
		}
	}
	if size < -1 {
		return invalid(op, none, "file %q: declared size %d is negative", path, size)
	}
	return g.fits(op, path, max(size, 0))
}

// fits tells whether size more bytes are within the declared total and the bound.
func (g *Staging) fits(op, path string, size int64) error {
	none := edgewise.ModelID{}
	if limit := g.store.options.MaxVersionBytes; size > limit-g.total {
		return refuse(op, edgewise.TooLarge, none, "file %q takes the upload over %d bytes, the most that is allowed", path,
			limit)
	}
	if g.declared >= 0 && size > g.declared-g.total {
		return invalid(op, none, "file %q takes the upload over the %d bytes that were declared", path, g.declared)
	}
	return nil
}

// parents yields the folders that p is in, the outermost first.
func parents(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range p {
			if c == '/' && !yield(p[:i]) {
				return
			}
		}
	}
}

func (g *Staging) write(ctx context.Context, path string, size int64, r io.Reader) (edgewise.File, error) {
	if err := g.makeParents(path); err != nil {
		return edgewise.File{}, err
	}
	out, err := g.store.disk.Create(filepath.Join(g.Dir(), filepath.FromSlash(path)))
	if errors.Is(err, os.ErrExist) { // a file system that treats two names as one
		return edgewise.File{}, invalid("store.Add", edgewise.ModelID{},
			"file %q was sent twice: this disk does not tell its name from another", path)
	}
	if err != nil {
		return edgewise.File{}, err
	}
	f, err := g.stream(ctx, out, edgewise.File{Path: path, Size: size}, r)
	return f, errors.Join(err, out.Close())
}

// makeParents makes the folders that a file is in.
func (g *Staging) makeParents(path string) error {
	for parent := range parents(path) {
		if g.folders[parent] {
			continue
		}
		if err := g.store.disk.Mkdir(filepath.Join(g.Dir(), filepath.FromSlash(parent))); err != nil {
			return err
		}
		g.folders[parent] = true
	}
	return nil
}

// Discard ends the upload and removes what it wrote. After Put, or a second time, it does nothing.
func (g *Staging) Discard() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil
	}
	g.end()
	if err := g.store.disk.RemoveAll(g.folder); err != nil {
		return fail("store.Discard", edgewise.ModelID{}, "removing an upload", err)
	}
	return nil
}

// end releases the upload slot. g.mu is held, except while Begin has not returned.
func (g *Staging) end() {
	g.ended = true
	if g.shared {
		g.store.budget.spend(g.promised)
	} else {
		g.store.budget.leave(g.promised)
	}
	g.promised = 0
}

// list returns the files, by Path.
func (g *Staging) list() []edgewise.File {
	files := slices.Collect(maps.Values(g.files))
	slices.SortFunc(files, func(a, b edgewise.File) int { return strings.Compare(a.Path, b.Path) })
	return files
}
