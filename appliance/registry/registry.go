// Package registry keeps what is stored of models, and which version answers: versions, labels, deployments, pins of
// ensembles. The desired state is stored before it is acted on, and a label moves only to a version that has been
// loaded.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/store"
)

// Serving is what a Registry needs to load versions. serving.Loader describes the methods, which are safe for
// concurrent use.
type Serving interface {
	Load(ctx context.Context, v *edgewise.Version, dir string, declared *edgewise.Model) (*manager.Loaded, error)
	LoadEnsemble(v *edgewise.Version, parts []*edgewise.Version) (*manager.Loaded, error)
	Footprint(ctx context.Context, v *edgewise.Version, dir string) (manager.Footprint, error)
	Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error)
	Defaults() modelconfig.Defaults
	Forget(v *edgewise.Version) error
}

// Config configures a Registry.
type Config struct {
	Store   *store.Store
	Serving Serving
	Manager *manager.Manager // loads by LoadVersion
	// Documents keep which versions failed to load.
	Documents edgewise.Documents
	History   *History // nil: deployments are not noted
	// Loading notes that a version is being loaded until done is called. nil: nobody needs to know.
	Loading func(edgewise.ModelID) (done func())
	// Prove returns why a version that has been loaded for the label live does not get it. nil: every version does.
	Prove func(ctx context.Context, id edgewise.ModelID) error
	// Accepts returns why a model that is completed and valid cannot be stored. nil: each can.
	Accepts func(m *edgewise.Model) error
	// Stage begins to bring a version that an upload brought live by stages, and tells whether that is how it goes live.
	// nil: none does.
	Stage func(ctx context.Context, id edgewise.ModelID) (staged bool, err error)
	// Keep returns how many versions of a model are kept when another one goes live; 0: all. nil: all.
	Keep func() int
	// Changed is called after a change of a model, or of a version of it. nil: nobody needs to know.
	Changed func(id edgewise.ModelID, what string)
	// Renamed is called when a model has got another name, before it is loaded under that. nil: nobody needs to know.
	Renamed func()
	Logger  *slog.Logger
}

// Registry changes what is stored and what is served, in that order. Changes to one model happen one after the other.
// It is safe for concurrent use.
type Registry struct {
	config  Config
	store   *store.Store
	manager *manager.Manager
	logger  *slog.Logger
	locks   *locks

	classes   classCache
	overrides overrides
	besides   sync.Map // *edgewise.Version of Beside to its declared *edgewise.Model
	imported  imported
	failed    failedLoads
}

// New makes a Registry.
func New(c Config) *Registry {
	return &Registry{
		config: c, store: c.Store, manager: c.Manager, logger: c.Logger, locks: newLocks(),
		failed:   failedLoads{Notes{c.Documents, FailedBucket}, c.Logger},
		imported: imported{records: map[string]*edgewise.Record{}, open: map[edgewise.ModelID]int{}, held: map[string]bool{}},
	}
}

// Push stores an upload as a new version, after everything that can be refused has been refused. With promote the
// label live moves to it once it is loaded; when that fails the version stays stored until the next upload of the
// model, and the error says so.
func (g *Registry) Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error) {
	if err := g.Changeable("registry.Push", up.Model); err != nil {
		return nil, err
	}
	v, err := g.put(ctx, up)
	if err != nil {
		return nil, err
	}
	g.logger.Info("version stored",
		"model", v.ID.Name, "version", v.ID.Version, "bytes", v.Size, "digest", string(v.Digest))
	g.Tell(v.ID, "stored")
	g.dropFailed(ctx, v.ID.Name)
	if err := g.Refresh(ctx, v.ID.Name); err != nil {
		return &admin.Pushed{Version: v}, edgewise.Errorf("registry.Push", edgewise.KindOf(err),
			"model %v is stored: %w", v.ID, err)
	}
	if !promote {
		return &admin.Pushed{Version: v}, nil
	}
	moved, err := g.GoLive(ctx, v.ID, up.Version != 0)
	if err != nil {
		return &admin.Pushed{Version: v}, edgewise.About(v.ID,
			fmt.Errorf("model %v is stored but was not made live: %w", v.ID, err))
	}
	return &admin.Pushed{Version: v, SignatureChanges: moved.SignatureChanges, Staged: moved.Staged}, nil
}

// Refresh makes a model be served as it is stored now. It returns at once; see Settle.
func (g *Registry) Refresh(ctx context.Context, name string) error {
	unlock, err := g.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return g.refresh(name)
}

// Room tells whether an upload of size bytes could begin now.
func (g *Registry) Room(size int64) error { return g.store.Room(size) }

func (g *Registry) put(ctx context.Context, up edgewise.Upload) (*edgewise.Version, error) {
	if err := edgewise.CheckName(up.Model); err != nil {
		return nil, edgewise.Errorf("registry.Push", edgewise.Invalid, "%w", err)
	}
	staging, err := g.store.Begin(ctx, up.Size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := staging.Discard(); err != nil {
			g.logger.Error("discarding an upload", "model", up.Model, "error", err)
		}
	}()
	files, err := receive(ctx, staging, up)
	if err != nil {
		return nil, err
	}
	if up.Base != 0 {
		if files, err = g.addBase(staging, edgewise.ModelID{Name: up.Model, Version: up.Base}, files); err != nil {
			return nil, err
		}
	}
	m, err := g.Understand(ctx, up.Model, staging.Dir(), files)
	v := edgewise.Version{ID: edgewise.ModelID{Name: up.Model, Version: up.Version}, Model: m, Origin: up.Origin}
	if m != nil && ensemble.Is(m) {
		return g.putEnsemble(ctx, staging, v, err)
	}
	if err != nil {
		return nil, err
	}
	return g.store.Put(ctx, staging, v)
}

// receive stages every file of an upload and returns their paths.
func receive(ctx context.Context, staging *store.Staging, up edgewise.Upload) ([]string, error) {
	var files []string
	for {
		path, size, body, err := up.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if _, err := staging.Add(ctx, path, size, body); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	if len(files) == 0 {
		return nil, edgewise.Errorf("registry.Push", edgewise.Invalid, "model %q: the upload holds no file", up.Model)
	}
	return files, nil
}

// addBase adds files of a stored version to an upload and returns the paths of all: see Upload.Base.
func (g *Registry) addBase(staging *store.Staging, base edgewise.ModelID, came []string) ([]string, error) {
	v, err := g.version("registry.Push", base)
	if err != nil {
		return nil, err
	}
	if _, err := g.store.Dir(v.StoredID()); err != nil { // its files are damaged
		return nil, err
	}
	isConfig := func(path string) bool { return slices.Contains(modelconfig.Files(), path) }
	configured := slices.ContainsFunc(came, isConfig)
	files := came
	for _, f := range v.Files {
		if slices.Contains(came, f.Path) || configured && isConfig(f.Path) {
			continue
		}
		if err := staging.AddStored(f); err != nil {
			return nil, err
		}
		files = append(files, f.Path)
	}
	return files, nil
}

// DeleteVersion deletes a version that no label points to, no ensemble pins and no rollout compares.
func (g *Registry) DeleteVersion(ctx context.Context, id edgewise.ModelID) error {
	unlock, err := g.lockStored(ctx, "registry.DeleteVersion", id.Name)
	if err != nil {
		return err
	}
	defer unlock()
	return g.deleteVersion(ctx, id)
}

// deleteVersion is DeleteVersion with the model's lock held.
func (g *Registry) deleteVersion(ctx context.Context, id edgewise.ModelID) error {
	if g.manager.SplitOf(id.Name).Has(id.Version) {
		return edgewise.Errorf("registry.DeleteVersion", edgewise.Conflict,
			"model %v cannot be deleted while a rollout compares it with another version: stop that first", id)
	}
	if err := g.unpinned(ctx, id, "deleted", func() error { return g.store.DeleteVersion(ctx, id) }); err != nil {
		return err
	}
	g.failed.keep(id)
	g.logger.Info("version deleted", "model", id.Name, "version", id.Version)
	g.Tell(id, "deleted")
	return g.refresh(id.Name)
}

// DeleteModel deletes a model with all its versions and labels, unless an ensemble pins one of them.
func (g *Registry) DeleteModel(ctx context.Context, name string) error {
	unlock, err := g.lockStored(ctx, "registry.DeleteModel", name)
	if err != nil {
		return err
	}
	defer unlock()
	return g.deleteModel(ctx, name)
}

// deleteModel is DeleteModel with the model's lock held.
func (g *Registry) deleteModel(ctx context.Context, name string) error {
	err := g.unpinned(ctx, edgewise.ModelID{Name: name}, "deleted", func() error { return g.store.DeleteModel(ctx, name) })
	if err != nil {
		return err
	}
	g.failed.keep(edgewise.ModelID{Name: name})
	g.logger.Info("model deleted", "model", name)
	g.Tell(edgewise.ModelID{Name: name}, "deleted")
	g.overrides.forget(name)
	g.manager.Forget(name)
	return nil
}

// Load makes a model ready and waits for it, as it is stored. A model that has no live version gets its highest one.
func (g *Registry) Load(ctx context.Context, name string) error {
	if err := g.begin(ctx, name); err != nil {
		return err
	}
	return g.manager.Settle(ctx, name)
}

// Measure has a ready version measured once more on the devices of the box, beside the one that goes on answering, and
// waits until the faster one serves. Errors: NotFound, Unavailable when it is not ready, Unsupported when its device is
// not chosen by measurement, those of its load.
func (g *Registry) Measure(ctx context.Context, id edgewise.ModelID) error {
	unlock, err := g.Lock(ctx, id.Name)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := g.version("registry.Measure", id)
	if err != nil {
		return err
	}
	if err := errors.Join(g.config.Serving.Forget(v), g.manager.Renew(id)); err != nil {
		return err
	}
	return g.manager.Settle(ctx, id.Name)
}

// Settle waits until nothing is loading or unloading for a model, and returns the first failure among the versions
// that are wanted.
func (g *Registry) Settle(ctx context.Context, name string) error { return g.manager.Settle(ctx, name) }

// begin stores that a model is to be served and starts to load it.
func (g *Registry) begin(ctx context.Context, name string) error {
	unlock, err := g.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	g.overrides.forget(name)
	record, err := g.store.Record(name)
	if err != nil {
		return err
	}
	if record.Label(edgewise.LiveLabel) == 0 && len(record.Versions) > 0 {
		highest := record.Versions[len(record.Versions)-1].ID.Version
		_, err := g.setLabel(admin.WithCause(ctx, admin.CauseLoad), name, edgewise.LiveLabel, highest)
		return err
	}
	return g.setDesired(ctx, name, true)
}

// Unload stops serving a model and remembers that. Requests in flight are answered. What a served ensemble runs is not
// unloaded. Versions that were loaded only because an ensemble runs them go with it.
func (g *Registry) Unload(ctx context.Context, name string) error {
	unlock, err := g.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if users := g.servedEnsembles(name); len(users) > 0 {
		return edgewise.Errorf("registry.Unload", edgewise.Conflict,
			"model %q cannot be unloaded while an ensemble runs it: %s: unload that first", name, listed(users))
	}
	g.overrides.forget(name)
	return g.setDesired(ctx, name, false)
}

// setDesired stores whether a model is to be served. The model's lock is held.
func (g *Registry) setDesired(ctx context.Context, name string, wanted bool) error {
	if err := g.store.SetWanted(ctx, name, wanted); err != nil {
		return err
	}
	return g.refresh(name)
}

// refresh tells the manager what is stored about a model now, and ends a trial. The model's lock is held: otherwise an
// older state could overtake a newer one, or end the trial of another caller.
func (g *Registry) refresh(name string) error {
	record, err := g.store.Record(name)
	if err != nil && edgewise.KindOf(err) == edgewise.NotFound {
		g.manager.Forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	g.manager.Want(g.overrides.apply(record))
	return nil
}

// Start begins to load every model that is stored as wanted.
func (g *Registry) Start() {
	g.manager.Start(g.store.Records())
}

// locks is one lock for each name in use. Names that nobody holds or waits for take no memory.
type locks struct {
	mu   sync.Mutex // guards held
	held map[string]*nameLock
}

type nameLock struct {
	token chan struct{} // holds one token while the name is locked
	users int           // holders and waiters
}

func newLocks() *locks { return &locks{held: map[string]*nameLock{}} }

// lock waits for a name and returns the function that unlocks it, or ctx's error.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	n := l.join(name)
	if ctx.Err() == nil { // else the select could choose the token all the same
		select {
		case n.token <- struct{}{}:
			return func() {
				<-n.token
				l.leave(name, n)
			}, nil
		case <-ctx.Done():
		}
	}
	l.leave(name, n)
	return nil, fmt.Errorf("model %q is being changed by another caller: %w", name, ctx.Err())
}

func (l *locks) join(name string) *nameLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.held[name]
	if n == nil {
		n = &nameLock{token: make(chan struct{}, 1)}
		l.held[name] = n
	}
	n.users++
	return n
}

func (l *locks) leave(name string, n *nameLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.held, name)
	}
}
