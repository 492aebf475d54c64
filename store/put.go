package store

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// MaxVersion is the highest number that an upload may give a version. Numbers that the store gives go on behind it, so
// no upload can use up a model's numbers, and JSON numbers carry all of them exactly.
const MaxVersion = 1 << 52

// Put makes the staged files a version of v.ID.Name and ends the staging. The caller sets v.ID, v.Model and v.Origin;
// Put sets the rest. v.ID.Version 0 takes the number after the highest one that the model ever used. Numbers of deleted
// versions are never used again. When Put returns a version, the version survives a loss of power. When it returns an
// error there is no version, and the staging may be put again or discarded; only when the disk failed in the very last
// step, the sync of the catalog, may the version be there all the same.
//
// Kinds of error: Invalid for a bad name or number, no declaration, no files, or fewer bytes than declared to Begin;
// TooLarge over MaxManifestBytes; Exists when the version is there, Conflict when its number was used before or a
// folder that the catalog does not know is in its place; Exhausted when the disk is full.
func (s *Store) Put(ctx context.Context, g *Staging, v edgewise.Version) (*edgewise.Version, error) {
	const op = "store.Put"
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.complete(op, v); err != nil {
		return nil, err
	}
	damaged, err := s.damagedBlobs(ctx, g)
	if err != nil {
		return nil, fail(op, v.ID, "comparing with stored files", err)
	}
	if err := s.lockWriter(ctx, op); err != nil {
		return nil, err
	}
	defer s.unlockWriter()
	if v.ID.Version, err = s.number(op, v.ID, ""); err != nil {
		return nil, err
	}
	p := &publication{store: s, staging: g, version: &v, damaged: damaged}
	if err := p.run(op); err != nil {
		p.undo()
		return nil, err
	}
	g.end()
	return s.view.Load().version(v.ID), nil
}

// complete tells whether the staging can become v.
func (g *Staging) complete(op string, v edgewise.Version) error {
	if err := g.usable(op); err != nil {
		return err
	}
	if err := edgewise.CheckName(v.ID.Name); err != nil {
		return invalid(op, v.ID, "%w", err)
	}
	if v.ID.Version < 0 {
		return invalid(op, v.ID, "version %d of model %q is negative", v.ID.Version, v.ID.Name)
	}
	if v.ID.Version > MaxVersion {
		return invalid(op, v.ID, "version %d of model %q is too high: an upload may have numbers up to %d", v.ID.Version,
			v.ID.Name, int64(MaxVersion))
	}
	if v.Model == nil {
		return invalid(op, v.ID, "model %s has no declaration", v.ID)
	}
	if len(g.files) == 0 {
		return invalid(op, v.ID, "model %s has no files", v.ID)
	}
	if g.declared >= 0 && g.total != g.declared {
		return invalid(op, v.ID, "model %s: %d bytes were declared and %d came", v.ID, g.declared, g.total)
	}
	return nil
}

// damagedBlobs returns the blobs that have the name of a staged file and other bytes: the disk has damaged them.
func (s *Store) damagedBlobs(ctx context.Context, g *Staging) (map[edgewise.Digest]bool, error) {
	damaged := make(map[edgewise.Digest]bool)
	for _, f := range g.files {
		if !s.blobs.has(f.Digest) || disk.SameFile(s.root.blob(f.Digest), g.path(f)) {
			continue
		}
		same, err := disk.SameContent(ctx, s.root.blob(f.Digest), g.path(f))
		if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		damaged[f.Digest] = !same // also when it cannot be read
	}
	return damaged, nil
}

// path returns where a staged file stands.
func (g *Staging) path(f edgewise.File) string {
	return filepath.Join(g.Dir(), filepath.FromSlash(f.Path))
}

// number returns the number that id gets, or refuses the one it asks for. was is the name that the version has so far;
// empty: none. The caller is the writer.
func (s *Store) number(op string, id edgewise.ModelID, was string) (int64, error) {
	var highest int64
	var used, again bool
	err := database.View(s.db, func(tx *bbolt.Tx) (err error) {
		used = tx.Bucket(deletedBucket).Get(versionKey(id)) != nil
		again, err = returns(tx, id, was)
		if err == nil {
			highest, err = highestNumber(tx, id.Name)
		}
		return err
	})
	if err != nil {
		return 0, fail(op, id, "reading the catalog", err)
	}
	if id.Version == 0 {
		return s.nextNumber(op, id.Name, highest)
	}
	if s.view.Load().version(id) != nil {
		return 0, refuse(op, edgewise.Exists, id, "model %s exists already", id)
	}
	if used && !again {
		return 0, refuse(op, edgewise.Conflict, id, "model %s was deleted or renamed: its number is not used again", id)
	}
	if s.occupied(id) {
		return 0, refuse(op, edgewise.Conflict, id,
			"the place of model %s is taken by a folder that the catalog does not know: run edgewise doctor --repair", id)
	}
	return id.Version, nil
}

func (s *Store) nextNumber(op, name string, highest int64) (int64, error) {
	for highest < math.MaxInt64 {
		highest++
		if !s.occupied(edgewise.ModelID{Name: name, Version: highest}) {
			return highest, nil
		}
	}
	return 0, refuse(op, edgewise.Conflict, edgewise.ModelID{Name: name}, "model %q has used its last number %d", name, highest)
}

func (s *Store) occupied(id edgewise.ModelID) bool {
	_, err := os.Lstat(s.root.version(id))
	return err == nil
}

// publication carries one staging over into the folders of blobs and models, and then into the catalog.
type publication struct {
	store   *Store
	staging *Staging
	version *edgewise.Version
	damaged map[edgewise.Digest]bool
	want    edgewise.Digest // of the version; empty: any

	carried   bool              // carry has begun
	placed    []edgewise.Digest // blobs given their name here
	described bool              // the manifest may stand in the staging
	moved     bool              // the folder stands among the models
}

// run does the steps in the order that docs/formats/store.md gives: bytes, names, folders, and the transaction last.
func (p *publication) run(op string) error {
	if err := p.carry(op); err != nil {
		return err
	}
	v := p.version
	if err := p.store.update(op, v.ID, func(tx *bbolt.Tx) error { return putVersion(tx, v) }); err != nil {
		return err
	}
	p.store.settled(v.ID)
	return nil
}

// carry does the steps before the transaction.
func (p *publication) carry(op string) error {
	p.carried = true
	v := p.version
	v.Files, v.Size = p.staging.list(), p.staging.total
	if v.Created.IsZero() {
		v.Created = time.Now().UTC()
	}
	text, err := encodeManifest(v)
	if err != nil {
		return invalid(op, v.ID, "model %s: declaration cannot be stored: %w", v.ID, err)
	}
	if p.want != "" && v.Digest != p.want {
		return refuse(op, edgewise.Corrupt, v.ID, "model %s has the digest %.12s instead of %.12s", v.ID, v.Digest, p.want)
	}
	if len(text) > MaxManifestBytes {
		return refuse(op, edgewise.TooLarge, v.ID,
			"model %s: declaration and list of files take %d bytes: at most %d are allowed", v.ID, len(text), MaxManifestBytes)
	}
	for _, f := range v.Files {
		if err := p.share(f); err != nil {
			return fail(op, v.ID, "storing file "+strconv.Quote(f.Path)+" of model "+v.ID.String(), err)
		}
	}
	if err := p.describe(text); err != nil {
		return fail(op, v.ID, "writing the manifest of model "+v.ID.String(), err)
	}
	if err := p.move(); err != nil {
		return fail(op, v.ID, "making the folder of model "+v.ID.String(), err)
	}
	return nil
}

// share makes the staged file and the blob of its digest one file.
func (p *publication) share(f edgewise.File) error {
	b, path := p.store.blobs, p.staging.path(f)
	if disk.SameFile(path, p.store.root.blob(f.Digest)) {
		return nil
	}
	if b.has(f.Digest) && !p.damaged[f.Digest] {
		_, err := b.fetch(f.Digest, path, filepath.Join(p.staging.folder, linkFile))
		return err
	}
	if !b.has(f.Digest) {
		p.placed = append(p.placed, f.Digest)
	}
	if err := b.place(path, f.Digest); err != nil {
		return err
	}
	delete(p.damaged, f.Digest)
	return p.store.disk.SyncDir(b.folder(f.Digest))
}

// describe writes the manifest and syncs every folder of the staging.
func (p *publication) describe(text []byte) error {
	d, g := p.store.disk, p.staging
	p.described = true
	if err := disk.WriteFile(d, filepath.Join(g.folder, manifestFile), text); err != nil {
		return err
	}
	for folder := range g.folders {
		if err := d.SyncDir(filepath.Join(g.Dir(), filepath.FromSlash(folder))); err != nil {
			return err
		}
	}
	return errors.Join(d.SyncDir(g.Dir()), d.SyncDir(g.folder))
}

// move gives the staging its place among the models.
func (p *publication) move() error {
	d, root := p.store.disk, p.store.root
	model := root.model(p.version.ID.Name)
	if _, err := disk.MakeFolder(d, model); err != nil {
		return err
	}
	if err := d.SyncDir(root.models()); err != nil {
		return err
	}
	if err := d.Rename(p.staging.folder, root.version(p.version.ID)); err != nil {
		return err
	}
	p.moved = true
	return d.SyncDir(model)
}

// undo reverts what a failed run did, as far as the disk lets it: the sweep at the next Open does the rest. It
// leaves everything when the failed commit turns out to have reached the catalog.
func (p *publication) undo() {
	s, v := p.store, p.version
	if s.view.Load().version(v.ID) != nil || s.broken != nil {
		p.staging.end()
		return
	}
	if p.moved && s.tidy("move a failed upload away", s.disk.Rename(s.root.version(v.ID), p.staging.folder)) != nil {
		p.staging.end()
		return
	}
	if p.described {
		_ = s.tidy("remove the manifest of a failed upload", s.blobs.clear(filepath.Join(p.staging.folder, manifestFile)))
	}
	for _, d := range p.placed {
		_ = s.tidy("remove a blob of a failed upload", s.blobs.clear(s.root.blob(d)))
		_ = s.tidy("remove a blob of a failed upload", s.blobs.clear(s.root.blob(d)+database.PartialSuffix))
	}
	if s.view.Load().record(v.ID.Name) == nil {
		s.removeEmpty(s.root.model(v.ID.Name))
	}
}

// settled removes the mark of a version folder whose transaction is done. A mark that stays is removed by the next
// Open.
func (s *Store) settled(id edgewise.ModelID) {
	_ = s.tidy("remove the mark of a finished change", s.disk.Remove(filepath.Join(s.root.version(id), pendingFile)))
}

// tidy logs the failure of a step that the next Open makes good.
func (s *Store) tidy(step string, err error) error {
	if err != nil {
		s.log.Warn("cannot "+step+": the next start will", "error", err)
	}
	return err
}

// removeEmpty removes a model's folder if nothing is in it.
func (s *Store) removeEmpty(folder string) {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) == 0 {
		_ = s.tidy("remove an empty folder", s.disk.Remove(folder))
	}
}
