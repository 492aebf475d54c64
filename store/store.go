// Package store keeps the immutable versions of models on disk: a bbolt catalog beside content-addressed files.
//
// A version exists from the one catalog transaction that names it. Everything before that transaction is garbage which
// [Open] sweeps; everything after it survives a loss of power. All bytes that a version names are on disk, synced and
// in place, before the transaction begins.
//
// The formats, the order of writes and what recovery does are described in docs/formats/store.md.
package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Store is an open data folder. Its methods may be called from any number of goroutines.
type Store struct {
	root    layout
	options Options
	disk    device
	log     *slog.Logger
	blobs   blobs
	lock    *database.Lock
	db      *bbolt.DB
	rings   sync.Pool // of *ring

	view    atomic.Pointer[view]
	damaged map[edgewise.ModelID]string // found when opening, by version; read-only

	writer chan struct{} // holds one token; its holder may change the catalog and the folders it names
	closed bool          // guarded by writer
	broken error         // guarded by writer: the catalog could not be read back after a failed commit
	budget budget
	copies *database.Copies // of the catalog
}

// Open opens the data folder dir, making it when it is not there, and sweeps what no version names. It does not read
// the files of versions; a version whose files are missing or have the wrong size is logged, and Dir refuses it.
//
// Kinds of error: Conflict when another process has the folder open (after database.LockTimeout), Unsupported when a newer
// release wrote it, Corrupt when the catalog is damaged or is missing while versions are there (Repair mends both).
func Open(dir string, o Options) (*Store, error) {
	const op = "store.Open"
	o = o.withDefaults()
	s := &Store{root: layout(dir), options: o, disk: o.disk, log: o.Logger, writer: make(chan struct{}, 1)}
	s.blobs = blobs{s.root, s.disk}
	s.rings.New = func() any { return newRing() }
	s.budget = budget{root: s.root, disk: s.disk, reserve: o.Reserve, uploads: o.MaxUploads}
	if err := s.prepare(); err != nil {
		return nil, database.Fail(op, "opening data folder", dir, err)
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.sweep()
	s.damaged = s.findDamage()
	s.copies = &database.Copies{
		Disk: s.disk, Log: s.log, DB: s.db, File: s.root.catalog(), Folder: s.root.snapshots(), Prefix: catalogPrefix,
		Every: o.SnapshotEvery, Keep: o.Snapshots,
	}
	s.copies.Start()
	s.writer <- struct{}{}
	return s, nil
}

// prepare makes and locks the folder.
func (s *Store) prepare() error {
	if err := os.MkdirAll(string(s.root), disk.FolderMode); err != nil {
		return err
	}
	for _, path := range s.root.folders() {
		if _, err := disk.MakeFolder(s.disk, path); err != nil {
			return err
		}
	}
	var err error
	s.lock, err = database.LockFolder(string(s.root))
	return err
}

// load opens the catalog, making an empty one in an empty folder, and reads it.
func (s *Store) load() error {
	const op = "store.Open"
	path := s.root.catalog()
	if err := s.ensureCatalog(path); err != nil {
		return database.Fail(op, "making the catalog", path, err)
	}
	db, err := database.Open(path, catalogMode, false)
	if err != nil {
		return unreadable(path, err)
	}
	s.db = db
	if err := s.reload(); err != nil {
		return unreadable(path, err)
	}
	return nil
}

func unreadable(path string, err error) error {
	if own, ok := errors.AsType[*edgewise.Error](err); ok && own.Kind != edgewise.Corrupt {
		return own
	}
	return edgewise.Errorf("store.Open", edgewise.Corrupt, "the catalog %s cannot be read: %w: run edgewise doctor --repair", path, err)
}

func (s *Store) ensureCatalog(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ids, err := s.root.versionFolders()
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		return edgewise.Errorf("store.Open", edgewise.Corrupt,
			"the catalog %s is missing though %d versions are in %s: run edgewise doctor --repair",
			path, len(ids), s.root.models())
	}
	return writeCatalog(s.disk, path, newContents())
}

// reload makes the view from the catalog.
func (s *Store) reload() error {
	c := newContents()
	if err := database.View(s.db, c.read); err != nil {
		return err
	}
	if len(c.problems) > 0 {
		return edgewise.Errorf("store.Open", edgewise.Corrupt, "%s (and %d more such entries)", c.problems[0], len(c.problems)-1)
	}
	s.view.Store(newView(c))
	return nil
}

// Close waits for the change in progress, stops the snapshots and closes the catalog. Uploads still in flight can only
// be discarded afterwards. Closing twice does nothing.
func (s *Store) Close() error {
	s.copies.End()
	<-s.writer
	defer s.unlockWriter()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.release()
}

func (s *Store) release() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.lock.Release())
}

// lockWriter waits for the right to change the catalog.
func (s *Store) lockWriter(ctx context.Context, op string) error {
	select {
	case <-ctx.Done():
		return fail(op, edgewise.ModelID{}, "waiting for another change", context.Cause(ctx))
	case <-s.writer:
	}
	if err := s.usable(op); err != nil {
		s.unlockWriter()
		return err
	}
	return nil
}

func (s *Store) usable(op string) error {
	if s.closed {
		return edgewise.Errorf(op, edgewise.Unavailable, "the store is closed")
	}
	if s.broken != nil {
		return edgewise.Errorf(op, edgewise.Unavailable, "the catalog failed and takes no changes until a restart: %w", s.broken)
	}
	return nil
}

// change lets fn change what is stored of a model, as the writer. Error: NotFound when there is no such model.
func (s *Store) change(ctx context.Context, op, name string, fn func(r *edgewise.Record) error) error {
	if err := s.lockWriter(ctx, op); err != nil {
		return err
	}
	defer s.unlockWriter()
	r := s.view.Load().record(name)
	if r == nil {
		return noModel(op, name)
	}
	return fn(r)
}

func (s *Store) unlockWriter() { s.writer <- struct{}{} }

// update changes the entries of one model in one transaction and publishes the outcome. The caller is the writer.
func (s *Store) update(op string, id edgewise.ModelID, change func(*bbolt.Tx) error) error {
	return s.updateAll(op, id, []string{id.Name}, change)
}

// updateAll changes the entries of the named models in one transaction and publishes the outcome. The caller is the
// writer. id is what an error is about.
func (s *Store) updateAll(op string, id edgewise.ModelID, names []string, change func(*bbolt.Tx) error) error {
	var next *view
	committing := false
	err := database.Guard(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a commit it does nothing
		if err := change(tx); err != nil {
			return err
		}
		next = s.view.Load()
		for _, name := range names {
			r, err := readRecord(tx, name, next.record(name))
			if err != nil {
				return err
			}
			next = next.with(name, r)
		}
		committing = true
		return s.disk.Commit(tx)
	})
	if err == nil {
		s.copies.Note()
		s.view.Store(next)
		return nil
	}
	if committing { // a failed commit may have reached the file all the same: believe the file
		if e := s.reload(); e != nil {
			s.broken = e
		}
	}
	return fail(op, id, "writing the catalog", err)
}

// Snapshot makes a consistent copy of the catalog and removes the oldest ones over Options.Snapshots. Changes go on
// meanwhile. Kinds of error: Exhausted when the disk is full, Unavailable after Close.
func (s *Store) Snapshot() error {
	if err := s.copies.Copy(); err != nil {
		return fail("store.Snapshot", edgewise.ModelID{}, "copying the catalog", err)
	}
	return nil
}

// Records returns every model, by name. The records are shared: they must not be modified, and they do not change when
// the store does.
func (s *Store) Records() []*edgewise.Record { return slices.Clone(s.view.Load().records) }

// Record returns one model. The record is shared, see Records. Kind of error: NotFound.
func (s *Store) Record(name string) (*edgewise.Record, error) {
	if r := s.view.Load().record(name); r != nil {
		return r, nil
	}
	return nil, noModel("store.Record", name)
}

// Dir returns the folder in which the files of a version stand under their author's paths. They must not be modified.
// Kinds of error: NotFound; Corrupt when the files were missing or had the wrong size at Open.
func (s *Store) Dir(id edgewise.ModelID) (string, error) {
	const op = "store.Dir"
	if s.view.Load().version(id) == nil {
		return "", noVersion(op, id)
	}
	if reason := s.damaged[id]; reason != "" {
		return "", refuse(op, edgewise.Corrupt, id, "model %s is damaged: %s: run edgewise doctor --repair", id, reason)
	}
	return s.root.files(id), nil
}

// Usage is the disk space that a store uses and has.
type Usage struct {
	Blobs   int64 // distinct files of all versions
	Bytes   int64 // of those, each counted once
	Total   int64 // bytes of the disk
	Free    int64 // bytes of it that this process may still use
	Reserve int64 // bytes of it that uploads leave free
}

// Usage reads the catalog's list of blobs and asks the file system for its free room.
func (s *Store) Usage() (Usage, error) {
	const op = "store.Usage"
	u := Usage{Reserve: s.options.Reserve}
	err := database.View(s.db, u.read)
	if err != nil {
		return u, fail(op, edgewise.ModelID{}, "reading the catalog", err)
	}
	if u.Total, u.Free, err = s.disk.Space(string(s.root)); err != nil {
		return u, fail(op, edgewise.ModelID{}, "asking for the free room of the disk", err)
	}
	return u, nil
}

// Defaults of the fields of Options that are zero.
const (
	DefaultMaxVersionBytes = 64 << 30 // bytes of all files of one version
	DefaultMaxFiles        = 4096     // files of one version
	DefaultMaxUploads      = 8        // uploads in flight
	DefaultSnapshotEvery   = time.Hour
	DefaultSnapshots       = 24 // snapshots kept
)

// Bounds that are not configurable.
const (
	// MaxManifestBytes bounds the declaration and the list of files of one version, as JSON.
	MaxManifestBytes = 16 << 20
	// MaxLabels bounds the labels of one model.
	MaxLabels = 64
)

// Options are the bounds of a store. A zero field takes its default, except Reserve.
type Options struct {
	// Reserve is the number of bytes of the disk that uploads leave free. 0 reserves nothing.
	Reserve int64
	// MaxVersionBytes bounds the bytes of all files of one version.
	MaxVersionBytes int64
	// MaxFiles bounds the files of one version.
	MaxFiles int
	// MaxUploads bounds the uploads in flight. Each holds 3 MiB of memory while it is written to.
	MaxUploads int
	// SnapshotEvery is how often the catalog is copied when it has changed. Negative: never.
	SnapshotEvery time.Duration
	// Snapshots is how many copies are kept.
	Snapshots int
	// Logger receives what was swept, what is foreign and what is damaged. nil discards.
	Logger *slog.Logger

	disk device // nil: the real one. Tests put a failing one here
}

func (o Options) withDefaults() Options {
	o.MaxVersionBytes = cmp.Or(o.MaxVersionBytes, DefaultMaxVersionBytes)
	o.MaxFiles = cmp.Or(o.MaxFiles, DefaultMaxFiles)
	o.MaxUploads = cmp.Or(o.MaxUploads, DefaultMaxUploads)
	o.SnapshotEvery = cmp.Or(o.SnapshotEvery, DefaultSnapshotEvery)
	o.Snapshots = cmp.Or(o.Snapshots, DefaultSnapshots)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.disk == nil {
		o.disk = osDevice{}
	}
	return o
}
