package registry

import (
	"context"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// originRepository is the Origin of versions that a model repository's folder brought.
const originRepository = "repository"

// imported are the models that model repositories have brought. What stands in a model's folder may change under the
// same version number, and what is stored never does: so each state of a version is stored under a number of the
// store's own, and the repositories' records say which of them stands for which public number now. All others see
// public numbers only.
type imported struct {
	mu      sync.Mutex // guards what follows
	records map[string]*edgewise.Record
	open    map[edgewise.ModelID]int // by stored number: loaded versions that have not been closed
	held    map[string]bool          // models of which versions are being stored that are in no record yet
}

// record returns what a model repository says of a model; stored where none has brought it.
func (i *imported) record(name string, stored *edgewise.Record) *edgewise.Record {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r := i.records[name]; r != nil {
		return r
	}
	return stored
}

// uses tells whether a stored version is in a record, loaded, or may come into a record.
func (i *imported) uses(stored edgewise.ModelID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open[stored] > 0 || i.held[stored.Name] {
		return true
	}
	r := i.records[stored.Name]
	if r == nil {
		return false
	}
	return slices.ContainsFunc(r.Versions, func(v *edgewise.Version) bool { return v.Stored == stored.Version })
}

// Changeable returns nil for a model that may be changed in the store. Error: Conflict for one that a model
// repository has brought, whose folder says what it is.
func (g *Registry) Changeable(op, name string) error {
	if g.imported.record(name, nil) == nil {
		return nil
	}
	return edgewise.Errorf(op,
		edgewise.Conflict, "model %q comes from a model repository: change its folder, and load it", name)
}

// Lock waits for the lock of a model, and returns what releases it. Other names that no model can have may be locked,
// too. Error: ctx's.
func (g *Registry) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return g.locks.lock(ctx, name)
}

// lockStored is Lock of a model that is to be changed. Errors: those of Changeable, and ctx's.
func (g *Registry) lockStored(ctx context.Context, op, name string) (unlock func(), err error) {
	if err := g.Changeable(op, name); err != nil {
		return nil, err
	}
	return g.Lock(ctx, name)
}

// Uploaded tells whether a version of a model is stored that no model repository has brought.
func (g *Registry) Uploaded(name string) bool {
	r, err := g.store.Record(name)
	own := func(v *edgewise.Version) bool { return v.Origin != originRepository }
	return err == nil && slices.ContainsFunc(r.Versions, own)
}

// Import stores a version that a model repository brings, under the next number of the store. Errors: those of Push.
func (g *Registry) Import(ctx context.Context, up edgewise.Upload) (*edgewise.Version, error) {
	up.Origin, up.Version = originRepository, 0
	return g.put(ctx, up)
}

// Hold keeps what is imported of a model from being deleted until release is called, which deletes what nobody uses.
// The model's lock is held.
func (g *Registry) Hold(name string) (release func()) {
	g.imported.mu.Lock()
	defer g.imported.mu.Unlock()
	g.imported.held[name] = true
	return func() {
		g.imported.mu.Lock()
		delete(g.imported.held, name)
		g.imported.mu.Unlock()
		g.Sweep(context.Background(), name)
	}
}

// Show makes r what is known of a model that a model repository has brought. What is served stays as it is.
func (g *Registry) Show(r *edgewise.Record) {
	g.imported.mu.Lock()
	defer g.imported.mu.Unlock()
	g.imported.records[r.Name] = r
}

// Serve is Show, and makes the model be served as r says. It returns at once; see Settle.
func (g *Registry) Serve(r *edgewise.Record) {
	g.Show(r)
	g.manager.Want(r)
}

// Retry loads the versions of a model that failed to load again. It returns at once; see Settle.
func (g *Registry) Retry(name string) {
	g.manager.Want(g.imported.record(name, &edgewise.Record{Name: name}))
}

// Withdraw ends what Show or Serve began. What was imported of the model is unloaded and deleted.
func (g *Registry) Withdraw(name string) {
	g.imported.mu.Lock()
	delete(g.imported.records, name)
	g.imported.mu.Unlock()
	g.manager.Forget(name)
	g.Sweep(context.Background(), name)
}

// Sweep deletes what is imported of a model, or of all for the empty name, and neither in its record nor loaded any
// more. While some of it is held, release does that.
func (g *Registry) Sweep(ctx context.Context, name string) {
	for _, r := range g.store.Records() {
		if name == "" || r.Name == name {
			g.sweep(ctx, r)
		}
	}
}

func (g *Registry) sweep(ctx context.Context, r *edgewise.Record) {
	for _, v := range r.Versions {
		if v.Origin != originRepository || g.imported.uses(v.ID) {
			continue
		}
		if err := g.store.DeleteVersion(ctx, v.ID); err != nil && edgewise.KindOf(err) != edgewise.NotFound {
			g.logger.Error("what a repository brought earlier cannot be deleted", "model", r.Name, "error", err)
		}
	}
}

// opened counts a loaded version that was imported until closed is called for it.
func (g *Registry) opened(v *edgewise.Version) {
	g.imported.mu.Lock()
	defer g.imported.mu.Unlock()
	g.imported.open[v.StoredID()]++
}

func (g *Registry) closed(v *edgewise.Version) {
	id := v.StoredID()
	g.imported.mu.Lock()
	if g.imported.open[id]--; g.imported.open[id] == 0 {
		delete(g.imported.open, id)
	}
	g.imported.mu.Unlock()
	g.Sweep(context.Background(), v.ID.Name)
}
