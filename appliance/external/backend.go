package external

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/appliance/external/remote"
)

// Config configures the backends.
type Config struct {
	Manifests []*Manifest
	Unusable  []Unusable
	Places    []string // folders in which backends were looked for
	Folder    string   // where folders for processes are made
	child.Restarts
	// Infer answers the requests of processes to other models; nil: there are none.
	Infer edgewise.Inferer
	// Suspend releases the cores of a batch while its model waits for another one, until resume. nil: nothing is released.
	Suspend func(ctx context.Context) (resume func())
	// Control loads and unloads models for processes, and says which are ready. nil: that is refused.
	Control Controller
	Metrics *Metrics
	// Device is what a process on a GPU may use beside what it may elsewhere; nil: nothing.
	Device func(on edgewise.Device) child.Access
	Logger *slog.Logger
}

// Controller is what processes may do with other models.
type Controller interface {
	Load(ctx context.Context, name string, o edgewise.LoadOverride) error
	Unload(ctx context.Context, name string, dependents bool) error
	VersionReady(id edgewise.ModelID) error
}

// Backend loads versions into processes of programs.
type Backend struct {
	Config
	tell sync.Once // which protection the kernel lacks

	mu        sync.Mutex // guards what follows
	described []description
	servers   map[string]*remote.Server // by the name of the backend
}

var _ edgewise.Backend = (*Backend)(nil)

// New makes the backend. No process is started before Inspect or Load.
func New(c Config) *Backend {
	c.Restarts = c.Complete()
	return &Backend{Config: c, servers: map[string]*remote.Server{}}
}

// Formats are those of all backends.
func (b *Backend) Formats() []edgewise.Format { return Formats(b.Manifests) }

// Formats are those of backends.
func Formats(manifests []*Manifest) (list []edgewise.Format) {
	for _, m := range manifests {
		list = append(list, m.Formats()...)
	}
	return list
}

// manifest returns the backend of a model. Error: Unsupported.
func (b *Backend) manifest(m *edgewise.Model) (*Manifest, error) {
	for _, candidate := range b.Manifests {
		if slices.Contains(candidate.Platforms, m.Platform) {
			return candidate, nil
		}
	}
	return nil, edgewise.Errorf("external.Load", edgewise.Unsupported, "model %q: there is no backend for platform %q",
		m.Name, m.Platform)
}

// unprotected says once which protection the kernel lacks.
func (b *Backend) unprotected(lacking error) {
	b.tell.Do(func() {
		b.Logger.Warn("the kernel does not keep the processes of backends away from other files", "error", lacking)
	})
}

// Load is LoadOn for one device.
func (b *Backend) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance,
	error,
) {
	return b.LoadOn(ctx, v, dir, []edgewise.Device{on})
}

// LoadOn starts a process for each instance of v on each of the devices that its group names, or makes sure that its server
// serves it. Errors: those of the backend; Internal when a process dies while loading; Deadline.
func (b *Backend) LoadOn(
	ctx context.Context, v *edgewise.Version, dir string, devices []edgewise.Device,
) (edgewise.Instance, error) {
	m, err := b.manifest(v.Model)
	if err != nil {
		return nil, err
	}
	if m.Address != "" {
		return b.open(ctx, m, v)
	}
	i := newInstance(b, m, v, dir, devices)
	if err := i.load(ctx); err != nil {
		_ = i.Close()
		return nil, err
	}
	return i, nil
}

// task makes what a process is started for. Its folder is the caller's to remove.
func (b *Backend) task(m *Manifest, id edgewise.ModelID, model *edgewise.Model, dir string) (*task, error) {
	folder, err := newFolder(b.Folder, dir, id.Name, max(id.Version, 1), m.Scratch > 0)
	if err != nil {
		return nil, err
	}
	configuration, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	return &task{
		Backend: b, manifest: m, id: id, model: model, folder: folder, logger: b.Logger.With(title(id)...),
		start: backend.Start{
			Model: id.Name, Version: max(id.Version, 1), Directory: folder.version, ModelDirectory: folder.root,
			Configuration: configuration, Threads: m.Threads, Log: backend.Info.String(),
		},
	}, nil
}

// description is what a backend has said of a model's files.
type description struct {
	dir           string
	configuration string
	ready         *backend.Ready
}

// maxDescribed bounds what is remembered of models that were inspected.
const maxDescribed = 64

// Inspect asks the backend what the model's files say, if it can tell and the configuration leaves something open. A
// process is started for that, and ended; a server is asked. Otherwise the configuration counts as it is. Errors: those
// of Load.
func (b *Backend) Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	manifest, err := b.manifest(m)
	if err != nil {
		return nil, err
	}
	if manifest.Address != "" {
		return b.ask(ctx, manifest, m)
	}
	if !manifest.Complete || completed(m) {
		return inspected(manifest, m, &edgewise.Model{MaxBatchSize: unset}), nil
	}
	ready, err := b.describe(ctx, manifest, dir, m)
	if err != nil {
		return nil, err
	}
	own, err := stated(m, ready)
	if err != nil {
		return nil, err
	}
	return inspected(manifest, m, own), nil
}

// inspected says what serves m, and what the backend has stated of its configuration.
func inspected(by *Manifest, m, stated *edgewise.Model) *edgewise.Inspection {
	return &edgewise.Inspection{Backend: by.Name, File: m.DefaultModelFilename, Completed: stated}
}

// completed tells whether nothing is left open in a configuration: what Complete fills in for any model is there.
func completed(m *edgewise.Model) bool {
	return m.MaxBatchSize >= 0 && m.VersionPolicy != nil && m.Optimization != nil && len(m.Input) > 0 && len(m.Output) > 0 &&
		len(m.InstanceGroup) > 0 && m.InstanceGroup[0].Name != "" && m.InstanceGroup[0].Count > 0
}

// describe asks a process for the description of a model, unless it has been asked.
func (b *Backend) describe(ctx context.Context, m *Manifest, dir string, model *edgewise.Model) (*backend.Ready, error) {
	own := *model
	own.MaxBatchSize = max(own.MaxBatchSize, 0)
	t, err := b.task(m, edgewise.ModelID{Name: model.Name}, &own, dir)
	if err != nil {
		return nil, err
	}
	defer t.folder.remove()
	if known := b.known(dir, t.start.Configuration); known != nil {
		return known, nil
	}
	t.start.Describe, t.start.Complete = true, true
	t.start.Instance = backend.StartInstance{Name: model.Name + "_0_0", Kind: string(edgewise.KindCPU)}
	p, err := t.spawn()
	if err != nil {
		return nil, edgewise.Errorf("external.Inspect", edgewise.KindOf(err),
			"model %q: a process of backend %q cannot be started: %w", model.Name, m.Name, err)
	}
	ready, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	p.Await(farewell, "killed: it did not end after it had described its model")
	<-p.gone
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.described) == maxDescribed {
		b.described = b.described[1:]
	}
	b.described = append(b.described, description{dir, string(t.start.Configuration), ready})
	return ready, nil
}

// known returns what was described before, nil when nothing was.
func (b *Backend) known(dir string, configuration []byte) *backend.Ready {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.described {
		if d.dir == dir && d.configuration == string(configuration) {
			return d.ready
		}
	}
	return nil
}

// stated is as much of a configuration as a backend's description of m holds.
func stated(m *edgewise.Model, r *backend.Ready) (*edgewise.Model, error) {
	own := &edgewise.Model{MaxBatchSize: unset}
	if r.Configuration != nil {
		if err := json.Unmarshal(r.Configuration, own); err != nil {
			return nil, edgewise.Errorf("external.Inspect", edgewise.Invalid,
				"model %q: the configuration that its backend made: %w", m.Name, err)
		}
	}
	for _, t := range r.Inputs {
		own.Input = append(own.Input, edgewise.ModelInput{
			Name: t.Name, DataType: t.Type, Dims: t.Dims, Optional: t.Optional, Format: edgewise.FormatNone,
		})
	}
	for _, t := range r.Outputs {
		own.Output = append(own.Output, edgewise.ModelOutput{Name: t.Name, DataType: t.Type, Dims: t.Dims})
	}
	if r.MaxBatchSize != nil {
		own.MaxBatchSize = *r.MaxBatchSize
	}
	if r.Decoupled != nil {
		own.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: *r.Decoupled}
	}
	return own, nil
}

// unset is the maximum batch size of which a backend says nothing.
const unset = -1
