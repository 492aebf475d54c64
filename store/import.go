package store

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// Import is what a batch brings of one model.
type Import struct {
	Name     string
	Versions []*edgewise.Version // ID, Model, Files, Digest, Size and Origin as they are to be; their numbers are free
	// Labels and Wanted take effect where the model is not stored yet; for a stored model they must be empty.
	Labels []edgewise.Label
	Wanted bool
}

// ImportSource is where the content of a batch comes from.
type ImportSource interface {
	// Open returns the content of a file. The caller closes it.
	Open(f edgewise.File) (io.ReadCloser, error)
	// Check has the last word about a version whose files stand in the folder dir under their paths.
	Check(ctx context.Context, v *edgewise.Version, dir string) error
}

// Batch holds versions of any number of models that begin to exist together. It holds one of Options.MaxUploads slots
// until it is put or discarded. It is not safe for concurrent use.
type Batch struct {
	store    *Store
	imports  []Import
	parts    []*publication
	name     string    // of the model that gets another one; empty: none does
	replaced *deletion // of what it is under that name
	ended    bool
	promised int64 // bytes of versions that have no staging yet
}

// Stage copies the files of a batch into the data folder and checks them. Nothing exists until the batch is put. The
// caller ends it with Put or Discard.
//
// Kinds of error: those of the source, and of Begin and Add; Corrupt for a version that has another digest than it
// should.
func (s *Store) Stage(ctx context.Context, list []Import, from ImportSource) (*Batch, error) {
	const op = "store.Stage"
	b := &Batch{store: s, imports: list}
	for _, m := range list {
		for _, v := range m.Versions {
			if v.Size < 0 || v.Size > s.options.MaxVersionBytes {
				return nil, refuse(op, edgewise.TooLarge, v.ID, "model %s has %d bytes: at most %d are allowed", v.ID, v.Size,
					s.options.MaxVersionBytes)
			}
			b.promised += v.Size
		}
	}
	if err := s.budget.enter(op, b.promised); err != nil {
		return nil, err
	}
	for _, m := range list {
		for _, v := range m.Versions {
			if err := b.stage(ctx, v, from); err != nil {
				return nil, errors.Join(err, b.Discard())
			}
		}
	}
	return b, nil
}

// stage copies one version.
func (b *Batch) stage(ctx context.Context, v *edgewise.Version, from ImportSource) error {
	const op = "store.Stage"
	g := b.store.staging(v.Size)
	g.shared = true
	b.promised -= v.Size
	b.parts = append(b.parts, &publication{
		store: b.store, staging: g,
		version: &edgewise.Version{ID: v.ID, Model: v.Model, Origin: v.Origin}, want: v.Digest,
	})
	if err := g.prepare(); err != nil {
		return fail(op, v.ID, "making a folder for model "+v.ID.String(), err)
	}
	for _, f := range v.Files {
		if err := addFrom(ctx, g, f, from); err != nil {
			return err
		}
	}
	if err := g.complete(op, edgewise.Version{ID: v.ID, Model: v.Model}); err != nil {
		return err
	}
	if err := from.Check(ctx, v, g.Dir()); err != nil {
		return err
	}
	var err error
	p := b.parts[len(b.parts)-1]
	if p.damaged, err = b.store.damagedBlobs(ctx, g); err != nil {
		return fail(op, v.ID, "comparing with stored files", err)
	}
	return nil
}

func addFrom(ctx context.Context, g *Staging, f edgewise.File, from ImportSource) error {
	in, err := from.Open(f)
	if err != nil {
		return err
	}
	got, err := g.Add(ctx, f.Path, f.Size, in)
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if got.Digest != f.Digest {
		return edgewise.Errorf("store.Stage", edgewise.Corrupt, "file %q has SHA-256 %.12s instead of %.12s", f.Path, got.Digest, f.Digest)
	}
	return nil
}

// Put makes everything in the batch exist, versions, labels and desired states, in one transaction, and ends it. When it
// returns nil all of it survives a loss of power. When it returns an error there is none of it, with the exception that
// Staging.Put has.
//
// Kinds of error: those of Staging.Put; Conflict for labels of a model that is stored; those of CheckLabels.
func (b *Batch) Put(ctx context.Context) error {
	const op = "store.PutBatch"
	s := b.store
	if b.ended {
		return edgewise.Errorf(op, edgewise.Conflict, "the batch was put or discarded already")
	}
	if err := s.lockWriter(ctx, op); err != nil {
		return err
	}
	defer s.unlockWriter()
	if err := b.publish(op); err != nil {
		b.undo()
		return errors.Join(err, b.Discard())
	}
	b.end()
	return nil
}

// publish carries every version over and commits. The caller is the writer.
func (b *Batch) publish(op string) error {
	s := b.store
	if b.name != "" && s.view.Load().record(b.name) != b.replaced.record {
		return refuse(op, edgewise.Conflict, edgewise.ModelID{Name: b.name}, "model %q has changed meanwhile", b.name)
	}
	var names []string
	for _, m := range b.imports {
		if err := s.checkImport(op, m); err != nil {
			return err
		}
		names = append(names, m.Name)
	}
	for _, p := range b.parts {
		if _, err := s.number(op, p.version.ID, b.name); err != nil {
			return err
		}
		if err := p.carry(op); err != nil {
			return err
		}
	}
	if err := b.commit(op, names); err != nil {
		return err
	}
	for _, p := range b.parts {
		s.settled(p.version.ID)
	}
	return nil
}

// commit runs the transaction. The caller is the writer.
func (b *Batch) commit(op string, names []string) error {
	if b.name == "" {
		return b.store.updateAll(op, edgewise.ModelID{}, names, b.write)
	}
	err := b.replaced.mark()
	if err != nil {
		err = fail(op, edgewise.ModelID{Name: b.name}, "marking model "+b.name+" for its new name", err)
	} else {
		err = b.store.updateAll(op, edgewise.ModelID{}, append(names, b.name), b.write)
	}
	if err != nil {
		b.replaced.unmark()
		return err
	}
	b.replaced.finish()
	return nil
}

// checkImport holds what a batch brings of a model against what is stored of it.
func (s *Store) checkImport(op string, m Import) error {
	stored := s.view.Load().record(m.Name)
	if stored != nil && (len(m.Labels) > 0 || m.Wanted) {
		return refuse(op, edgewise.Conflict, edgewise.ModelID{Name: m.Name}, "model %q has been stored meanwhile", m.Name)
	}
	return CheckLabels(m.Name, m.Labels, m.Versions)
}

// CheckLabels tells whether a model with these versions may have these labels. Kinds of error: Invalid for a bad name,
// the same name twice, or a version that is not there; TooLarge over MaxLabels.
func CheckLabels(name string, labels []edgewise.Label, versions []*edgewise.Version) error {
	const op = "store.CheckLabels"
	id := edgewise.ModelID{Name: name}
	if len(labels) > MaxLabels {
		return refuse(op, edgewise.TooLarge, id, "model %q has %d labels: at most %d are allowed", name, len(labels), MaxLabels)
	}
	seen, there := map[string]bool{}, map[int64]bool{}
	for _, v := range versions {
		there[v.ID.Version] = true
	}
	for _, l := range labels {
		switch err := edgewise.CheckLabel(l.Name); {
		case err != nil:
			return invalid(op, id, "model %q: %w", name, err)
		case seen[l.Name]:
			return invalid(op, id, "model %q has the label %q twice", name, l.Name)
		case !there[l.Version]:
			return invalid(op, id, "label %q of model %q points to version %d, which is not there", l.Name, name, l.Version)
		case len(l.History) > MaxLabelHistory:
			return refuse(op, edgewise.TooLarge, id, "label %q of model %q has a history of %d versions: at most %d are allowed",
				l.Name, name, len(l.History), MaxLabelHistory)
		}
		seen[l.Name] = true
	}
	return nil
}

// write is the transaction of a batch.
func (b *Batch) write(tx *bbolt.Tx) error {
	for _, p := range b.parts {
		if err := errors.Join(putVersion(tx, p.version), tx.Bucket(deletedBucket).Delete(versionKey(p.version.ID))); err != nil {
			return err
		}
	}
	now := time.Now().UTC()
	for _, m := range b.imports {
		for _, l := range m.Labels {
			if b.name == "" {
				l.Changed = now
			}
			if err := putLabel(tx, m.Name, l); err != nil {
				return err
			}
		}
		if m.Wanted {
			if err := putWanted(tx, m.Name); err != nil {
				return err
			}
		}
	}
	if b.name == "" {
		return nil
	}
	highest, err := highestNumber(tx, b.name)
	return errors.Join(err, raiseNumber(tx, b.imports[0].Name, highest), b.replaced.drop(tx))
}

// undo reverts what publish did, the last part first: later ones share blobs that earlier ones placed.
func (b *Batch) undo() {
	for _, p := range slices.Backward(b.parts) {
		if p.carried {
			p.undo()
		}
	}
}

// Discard ends the batch and removes what it wrote. After Put, or a second time, it does nothing.
func (b *Batch) Discard() error {
	if b.ended {
		return nil
	}
	var all []error
	for _, p := range b.parts {
		all = append(all, p.staging.Discard())
	}
	b.end()
	return errors.Join(all...)
}

// end releases the upload slot, and what the parts had reserved of the disk.
func (b *Batch) end() {
	b.ended = true
	for _, p := range b.parts {
		if !p.staging.ended {
			p.staging.end()
		}
	}
	b.store.budget.leave(b.promised)
}
