package appliance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/store"
)

// library changes what is stored and what is served, in that order: a wish is stored before it is acted on, and a
// label moves only to a version that has been loaded. Changes to one model happen one after the other.
type library struct {
	config  libraryConfig
	store   *store.Store
	serving *serving.Loader
	manager *manager.Manager
	locks   *locks
	logger  *slog.Logger

	labelCache labelCache
	groups     overrides
	sources    *sources
	phases     phases
	loading    func(edgewise.ModelID) (done func()) // notes that a version is being loaded; nil: nobody wants to know
	history    *deployments                         // nil: nothing is noted
	failed     failedLoads
	changed    func(id edgewise.ModelID, what string) // called after a change; nil: by nobody
}

type libraryConfig struct {
	Defaults  modelconfig.Defaults
	MaxQueue  int
	CoreCount int // for models
}

// Push stores an upload as a new version, after everything that can be refused has been refused. With promote the
// label live moves to it once it is loaded; when that fails the version stays stored until the next upload of the model, and
// the error says so.
func (l *library) Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error) {
	if err := l.sources.foreign("appliance.Push", up.Model); err != nil {
		return nil, err
	}
	v, err := l.put(ctx, up)
	if err != nil {
		return nil, err
	}
	l.logger.Info("version stored", "model", v.ID.Name, "version", v.ID.Version, "bytes", v.Size, "digest", string(v.Digest))
	l.tell(v.ID, "stored")
	l.dropFailed(ctx, v.ID.Name)
	if !promote {
		if err := l.stored(ctx, v.ID.Name); err != nil {
			return &admin.Pushed{Version: v}, edgewise.Errorf("appliance.Push", edgewise.KindOf(err), "model %v is stored: %w", v.ID, err)
		}
		return &admin.Pushed{Version: v}, nil
	}
	moved, err := l.goLive(ctx, v.ID, up.Version != 0)
	if err != nil {
		return &admin.Pushed{Version: v}, edgewise.Errorf("appliance.Push", edgewise.KindOf(err), "model %v is stored but was not made live: %w", v.ID, err)
	}
	return &admin.Pushed{Version: v, SignatureChanges: moved.SignatureChanges}, nil
}

// stored tells the manager of a new version that no label moves to, which the model's policy may ask for.
func (l *library) stored(ctx context.Context, name string) error {
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return l.refresh(name)
}

// Room tells whether an upload of size bytes could begin now.
func (l *library) Room(size int64) error { return l.store.Room(size) }

func (l *library) put(ctx context.Context, up edgewise.Upload) (*edgewise.Version, error) {
	if err := edgewise.CheckName(up.Model); err != nil {
		return nil, edgewise.Errorf("appliance.Push", edgewise.Invalid, "%w", err)
	}
	staging, err := l.store.Begin(ctx, up.Size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := staging.Discard(); err != nil {
			l.logger.Error("discarding an upload", "model", up.Model, "error", err)
		}
	}()
	files, err := receive(ctx, staging, up)
	if err != nil {
		return nil, err
	}
	m, err := l.understand(ctx, up.Model, staging.Dir(), files)
	v := edgewise.Version{ID: edgewise.ModelID{Name: up.Model, Version: up.Version}, Model: m, Origin: up.Origin}
	if m != nil && isEnsemble(m) {
		return l.putEnsemble(ctx, staging, v, err)
	}
	if err != nil {
		return nil, err
	}
	return l.store.Put(ctx, staging, v)
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
		return nil, edgewise.Errorf("appliance.Push", edgewise.Invalid, "model %q: the upload holds no file", up.Model)
	}
	return files, nil
}

// understand makes the model that a folder of files declares: its configuration, completed from what the backend reads
// in the model's file, and compared with it. With an error the model is nil, unless everything but its declaration's
// contents could be understood: then whatever else is wrong can be reported with it.
func (l *library) understand(ctx context.Context, name, dir string, files []string) (*edgewise.Model, error) {
	declared, err := modelconfig.Read(dir, name)
	if err != nil {
		return nil, err
	}
	return l.completed(ctx, declared, name, dir, files)
}

// completed is what a declaration comes to for the files in a folder.
func (l *library) completed(ctx context.Context, declared *edgewise.Model, name, dir string, files []string) (*edgewise.Model, error) {
	identified, err := modelconfig.Identify(declared, name, files)
	if err != nil {
		return nil, err
	}
	inspection, err := l.inspect(ctx, dir, identified)
	if err != nil {
		return nil, err
	}
	if inspection != nil {
		for _, o := range inspection.Omitted {
			l.logger.Warn("the model is served without a part of it", "model", name, "tensor", o.Name, "reason", o.Reason)
		}
	}
	m, err := modelconfig.Complete(identified, name, files, inspection, l.serving.Defaults())
	if err != nil {
		return nil, err
	}
	if err := modelconfig.Validate(m, files, inspection); err != nil {
		return m, err
	}
	if err := checkSums(ctx, m, dir); err != nil {
		return nil, err
	}
	_, err = sched.NewPadding(m, inspection)
	return m, err
}

// inspect reads the model's file with its backend. An ensemble has none: there is nothing to be read.
func (l *library) inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	if isEnsemble(m) {
		return nil, nil
	}
	return l.serving.Inspect(ctx, dir, m)
}

// SetLabel moves a label to a version. The version is loaded first: when that fails, the label stays where it is.
func (l *library) SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	if err := l.sources.foreign("appliance.SetLabel", name); err != nil {
		return admin.LabelMove{}, err
	}
	if err := edgewise.CheckLabel(label); err != nil {
		return admin.LabelMove{}, edgewise.Errorf("appliance.SetLabel", edgewise.Invalid, "%w", err)
	}
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return admin.LabelMove{}, err
	}
	defer unlock()
	return l.setLabel(ctx, name, label, version)
}

// setLabel is SetLabel with the model's lock held.
func (l *library) setLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	return l.moveLabel(ctx, edgewise.ModelID{Name: name, Version: version}, label, func() (edgewise.Label, error) {
		return l.store.SetLabel(ctx, name, label, version)
	})
}

// Rollback moves a label to the last version it pointed to that still exists, loading that first.
func (l *library) Rollback(ctx context.Context, name, label string) (admin.LabelMove, error) {
	if err := l.sources.foreign("appliance.Rollback", name); err != nil {
		return admin.LabelMove{}, err
	}
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return admin.LabelMove{}, err
	}
	defer unlock()
	record, err := l.store.Record(name)
	if err != nil {
		return admin.LabelMove{}, err
	}
	target := rollbackTarget(record, label)
	if target == 0 {
		_, err := l.store.Rollback(ctx, name, label) // which says why there is none
		return admin.LabelMove{}, err
	}
	return l.moveLabel(edgewise.WithCause(ctx, admin.CauseRollback), edgewise.ModelID{Name: name, Version: target}, label, func() (edgewise.Label, error) {
		return l.store.Rollback(ctx, name, label)
	})
}

func rollbackTarget(r *edgewise.Record, label string) int64 {
	i := slices.IndexFunc(r.Labels, func(l edgewise.Label) bool { return l.Name == label })
	if i < 0 {
		return 0
	}
	for _, number := range slices.Backward(r.Labels[i].History) {
		if r.Version(number) != nil {
			return number
		}
	}
	return 0
}

// RemoveLabel forgets a label; a version that nothing else asks for is unloaded.
func (l *library) RemoveLabel(ctx context.Context, name, label string) error {
	if err := l.sources.foreign("appliance.RemoveLabel", name); err != nil {
		return err
	}
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	from := l.labelled(name, label)
	if err := l.store.RemoveLabel(ctx, name, label); err != nil {
		return err
	}
	removed := admin.Deployment{Model: name, Label: label, From: from}
	l.history.note(edgewise.WithCause(ctx, admin.CauseRemove), removed, time.Now(), nil)
	l.tell(edgewise.ModelID{Name: name}, "label")
	return l.refresh(name)
}

// DeleteVersion deletes a version that no label points to and no ensemble pins.
func (l *library) DeleteVersion(ctx context.Context, id edgewise.ModelID) error {
	if err := l.sources.foreign("appliance.DeleteVersion", id.Name); err != nil {
		return err
	}
	unlock, err := l.locks.lock(ctx, id.Name)
	if err != nil {
		return err
	}
	defer unlock()
	err = l.unpinned(ctx, id, func() error { return l.store.DeleteVersion(ctx, id) })
	if err != nil {
		return err
	}
	l.failed.keep(id)
	l.logger.Info("version deleted", "model", id.Name, "version", id.Version)
	l.tell(id, "deleted")
	return l.refresh(id.Name)
}

// DeleteModel deletes a model with all its versions and labels, unless an ensemble pins one of them.
func (l *library) DeleteModel(ctx context.Context, name string) error {
	if err := l.sources.foreign("appliance.DeleteModel", name); err != nil {
		return err
	}
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	err = l.unpinned(ctx, edgewise.ModelID{Name: name}, func() error { return l.store.DeleteModel(ctx, name) })
	if err != nil {
		return err
	}
	l.failed.keep(edgewise.ModelID{Name: name})
	l.logger.Info("model deleted", "model", name)
	l.tell(edgewise.ModelID{Name: name}, "deleted")
	l.groups.forget(name)
	l.manager.Forget(name)
	return nil
}

// Load makes a model ready and waits for it, as it is stored. A model that has no live version gets its highest one.
func (l *library) Load(ctx context.Context, name string) error {
	if err := l.begin(ctx, name); err != nil {
		return err
	}
	return l.manager.Settle(ctx, name)
}

// settle serves a model as it is stored now and waits for that.
func (l *library) settle(ctx context.Context, name string) error {
	if err := l.stored(ctx, name); err != nil {
		return err
	}
	return l.manager.Settle(ctx, name)
}

// begin stores the wish for a model and starts to load it.
func (l *library) begin(ctx context.Context, name string) error {
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	l.groups.forget(name)
	record, err := l.store.Record(name)
	if err != nil {
		return err
	}
	if record.Label(edgewise.LiveLabel) == 0 && len(record.Versions) > 0 {
		highest := record.Versions[len(record.Versions)-1].ID.Version
		_, err := l.setLabel(edgewise.WithCause(ctx, admin.CauseLoad), name, edgewise.LiveLabel, highest)
		return err
	}
	return l.wish(ctx, name, true)
}

// Unload stops serving a model and remembers that. Requests in flight are answered. What a served ensemble runs is not
// unloaded. Versions that were loaded only because an ensemble runs them go with it.
func (l *library) Unload(ctx context.Context, name string) error {
	unlock, err := l.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if users := l.servedEnsembles(name); len(users) > 0 {
		return edgewise.Errorf("appliance.Unload", edgewise.Conflict, "model %q cannot be unloaded while an ensemble runs it: %s: unload that first", name, listed(users))
	}
	l.groups.forget(name)
	return l.wish(ctx, name, false)
}

// wish stores whether a model is to be served. The model's lock is held.
func (l *library) wish(ctx context.Context, name string, wanted bool) error {
	if err := l.store.SetWanted(ctx, name, wanted); err != nil {
		return err
	}
	return l.refresh(name)
}

// refresh tells the manager what is stored about a model now, and ends a trial. The model's lock is held: otherwise an
// older state could overtake a newer one, or end the trial of somebody else.
func (l *library) refresh(name string) error {
	record, err := l.store.Record(name)
	if err != nil && edgewise.KindOf(err) == edgewise.NotFound {
		l.manager.Forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	l.manager.Want(l.groups.apply(record))
	return nil
}

// start asks for every model that is stored as wanted.
func (l *library) start() {
	l.manager.Start(l.store.Records())
}
