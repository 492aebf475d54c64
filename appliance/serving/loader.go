// Package serving makes a stored version answer requests: it places the version on devices, has its backend load it,
// puts a scheduler and the layers that its configuration asks for in front of it, warms it up, and unloads it.
package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/cache"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/ratelimit"
	"github.com/edgewise-ai/edgewise/appliance/sched/sequence"
	"github.com/edgewise-ai/edgewise/appliance/warmup"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// Config configures a Loader.
type Config struct {
	Backends   []edgewise.Backend
	Defaults   modelconfig.Defaults // of what models leave open
	Devices    Devices
	Trial      TrialConfig
	CoreCount  int                   // cores for all models together, at least 1
	Cores      *cores.Budget         // the budget of them
	Limiter    *ratelimit.Limiter    // nil: rate_limiter has no effect
	States     *sequence.StateBudget // of the states of all sequences; nil: no bound
	Cache      *cache.Cache
	MaxQueue   int        // requests that wait for a version that sets no max_queue_size of its own
	Hold       sched.Hold // for tests: until when models run nothing
	Footprints Findings   // what the processes of versions took at the most, in bytes; nil: nothing is known
	Gap        bool       // a version may take the place of its predecessor before it is loaded, unless it says otherwise
	// Infer answers the requests of the steps of ensembles.
	Infer edgewise.Inferer
	// Independent tells whether the rows of a loaded version's batches do not depend on each other.
	Independent func(edgewise.ModelID) bool
	// Loaded is called when a version is ready. unverified says why no run has shown that it works; "" when one has.
	// nil: nobody is told.
	Loaded func(id edgewise.ModelID, unverified string)
	Logger *slog.Logger
}

// Devices are the GPUs of the machine. The methods are safe for concurrent use.
type Devices interface {
	// Usable returns the GPUs that models can run on. When there is none the error says why.
	Usable() ([]edgewise.DeviceInfo, error)
	// Slowed returns why a GPU works slower than it is asked to; empty when it does not, or does not tell.
	Slowed(edgewise.Device) string
	// Identity describes the processor and the runtime, with their versions: what was measured holds while it is the same.
	Identity() []string
}

// Loader loads versions. It is safe for concurrent use.
type Loader struct {
	config   Config
	memory   *gpuMemory
	pictures *pictureInputs
	trials   chan struct{} // holds a token while a version is tried on devices
	avoided  avoided
	// who is told that the warm-up of a version begins: a func() by its ModelID
	followers sync.Map
}

// New makes a Loader.
func New(c Config) *Loader {
	return &Loader{config: c, memory: newGPUMemory(c.Devices, c.Logger), pictures: newPictureInputs(), trials: make(chan struct{}, 1)}
}

// Follow calls warming when the warm-up of a version that is being loaded begins, until forget is called.
func (l *Loader) Follow(id edgewise.ModelID, warming func()) (forget func()) {
	l.followers.Store(id, warming)
	return func() { l.followers.Delete(id) }
}

// load is one version on its way to answering requests.
type load struct {
	*Loader
	version    *edgewise.Version
	dir        string
	declared   *edgewise.Model // the configuration of its author; nil: that in dir
	backend    edgewise.Backend
	format     edgewise.Format
	inspection func() (*edgewise.Inspection, error) // of its files, which are read once
	place      placement
	onClose    []func()
	// compares what was loaded on a device with FP32; nil: it is not compared
	check func(context.Context, edgewise.Device, edgewise.Instance) error
}

// Load makes a version ready to serve, whose files stand in dir: its backend loads it, a scheduler stands in front of
// it, and it has answered its warm-up requests. declared is the configuration of its author; nil: that in dir. dir
// outlives what is returned. Errors: Unsupported, Unavailable (no usable device), Exhausted, Invalid, those of the
// backend.
func (l *Loader) Load(
	ctx context.Context, v *edgewise.Version, dir string, declared *edgewise.Model,
) (*manager.Loaded, error) {
	if err := l.checkCache(v.Model); err != nil {
		return nil, err
	}
	backend, format, err := l.find(v.Model)
	if err != nil {
		return nil, err
	}
	t := &load{Loader: l, version: v, dir: dir, declared: declared, backend: backend, format: format}
	t.inspection = sync.OnceValues(func() (*edgewise.Inspection, error) { return l.inspect(ctx, v, dir) })
	config, err := t.schedulerConfig()
	if err != nil {
		return nil, err
	}
	instance, err := t.instance(ctx)
	if err != nil {
		return nil, err
	}
	loaded, unverified, err := t.serve(ctx, instance, config)
	if err != nil {
		return nil, err
	}
	l.announce(v.ID, unverified)
	return loaded, nil
}

// serve puts everything in front of an instance that its version asks for. When that fails the instance is closed.
func (t *load) serve(ctx context.Context, instance edgewise.Instance, config sched.Config) (
	loaded *manager.Loaded, unverified string, err error,
) {
	loaded, fresh, err := t.schedule(instance, config)
	if err != nil {
		return nil, "", err
	}
	if unverified, err = t.warm(ctx, fresh); err == nil {
		err = t.withPictures(loaded, instance)
	}
	if err != nil {
		if closing := loaded.Close(); closing != nil {
			t.config.Logger.Error("closing a version that failed to load", "model", t.version.ID.String(), "error", closing)
		}
		return nil, "", err
	}
	t.withResidency(loaded, instance)
	t.withThrottle(loaded, t.version, t.place.devices)
	t.withCache(loaded, t.version)
	return loaded, unverified, nil
}

// LoadEnsemble makes an ensemble ready to serve that runs parts, in the order of its steps. They are loaded, and
// outlive it. Errors: Unsupported, those of ensemble.New.
func (l *Loader) LoadEnsemble(v *edgewise.Version, parts []*edgewise.Version) (*manager.Loaded, error) {
	if err := l.checkCache(v.Model); err != nil {
		return nil, err
	}
	e, err := ensemble.New(v, parts, ensemble.Config{
		Infer: l.config.Infer, Check: sched.NewChecker(v.Model).Check, MaxQueue: l.config.MaxQueue, Logger: l.config.Logger,
		Pictures: l.pictures.accepts, Independent: l.config.Independent,
	})
	if err != nil {
		return nil, err
	}
	loaded := &manager.Loaded{Servable: e}
	l.withCache(loaded, v)
	l.announce(v.ID, "")
	return loaded, nil
}

// unannounced is a version in front of which its scheduler stands, and of which clients do not know yet.
type unannounced interface {
	Verify(ctx context.Context, req *edgewise.Request) error
	Warm(ctx context.Context, requests []*edgewise.Request) error
}

// warm runs the warm-up requests of a version, or makes sure that it works where it declares none; see tryOnce.
func (t *load) warm(ctx context.Context, fresh unannounced) (unverified string, err error) {
	if warming, ok := t.followers.Load(t.version.ID); ok {
		warming.(func())()
	}
	requests, err := warmup.Requests(t.version.Model, t.dir)
	if err != nil {
		return "", err
	}
	if unverified, err = tryOnce(ctx, t.version.Model, t.format, fresh.Verify); err != nil {
		return "", err
	}
	return unverified, fresh.Warm(ctx, requests)
}

// announce says that a version has been loaded, and why no run has shown that it works; "" when one has.
func (l *Loader) announce(id edgewise.ModelID, unverified string) {
	if unverified != "" {
		l.config.Logger.Info("version is not verified", "model", id.String(), "reason", unverified)
	}
	if l.config.Loaded != nil {
		l.config.Loaded(id, unverified)
	}
}

// checkCache refuses a model that asks for a cache on an appliance without one.
func (l *Loader) checkCache(m *edgewise.Model) error {
	if wantsCache(m) && l.config.Cache.Usage().Limit == 0 {
		return edgewise.Errorf("serving.Load", edgewise.Unsupported,
			"model %q: response_cache.enable: this box has no cache: engine.response_cache_bytes is 0", m.Name)
	}
	return nil
}

// withCache puts the response cache in front of a version that asks for it.
func (l *Loader) withCache(loaded *manager.Loaded, v *edgewise.Version) {
	if wantsCache(v.Model) {
		loaded.Servable = l.config.Cache.Wrap(v, loaded.Servable)
	}
}

func wantsCache(m *edgewise.Model) bool { return m.ResponseCache != nil && m.ResponseCache.Enable }

// Backend returns the backend of a model's platform. Error: Unsupported.
func (l *Loader) Backend(m *edgewise.Model) (edgewise.Backend, error) {
	b, _, err := l.find(m)
	return b, err
}

// find returns the backend of a model's platform, and its format.
func (l *Loader) find(m *edgewise.Model) (edgewise.Backend, edgewise.Format, error) {
	for _, b := range l.config.Backends {
		for _, f := range b.Formats() {
			if f.Platform == m.Platform {
				return b, f, nil
			}
		}
	}
	return nil, edgewise.Format{}, edgewise.Errorf("serving.Backend", edgewise.Unsupported,
		"model %q: this build has no backend for platform %q", m.Name, m.Platform)
}

// Inspect reads the model's files in dir. m is what its author has declared so far. Errors: Unsupported, those of the
// backend.
func (l *Loader) Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	backend, err := l.Backend(m)
	if err != nil {
		return nil, err
	}
	return backend.Inspect(ctx, dir, m)
}

// inspect is Inspect for a stored version, which an error names.
func (l *Loader) inspect(ctx context.Context, v *edgewise.Version, dir string) (*edgewise.Inspection, error) {
	inspection, err := l.Inspect(ctx, dir, v.Model)
	if err != nil {
		return nil, fmt.Errorf("model %v: %w", v.ID, err)
	}
	return inspection, nil
}

// Defaults returns what holds for what a model's author leaves open.
func (l *Loader) Defaults() modelconfig.Defaults { return l.config.Defaults }

// ModelsOn lists the versions that have memory of a GPU.
func (l *Loader) ModelsOn(gpu edgewise.Device) []edgewise.ModelID { return l.memory.on(gpu) }

// MemoryFactor is what a version takes in memory, as a multiple of its weights: the file as it is parsed, the
// weights, and their copy in the layout that the runtime's kernels want. Measured: a file of 102 MB takes 190 to 260
// MiB.
const MemoryFactor = 3

// Footprint tells what a version, whose files stand in dir, takes while it is loaded, and whether it may take the
// place of its predecessor: what its author says, what it took before, or an estimate. Errors: those of Inspect.
func (l *Loader) Footprint(ctx context.Context, v *edgewise.Version, dir string) (manager.Footprint, error) {
	f := manager.Footprint{Gap: l.config.Gap}
	if choice, ok := v.Model.Parameters[modelconfig.SwapParameter]; ok {
		f.Gap = choice.StringValue == modelconfig.SwapGap
	}
	if stated, err := strconv.ParseInt(v.Model.Parameters[modelconfig.MemoryParameter].StringValue, 10, 64); err == nil {
		f.Bytes, f.Stated = stated, true
		return f, nil
	}
	if v.Model.EnsembleScheduling != nil {
		return f, nil
	}
	if l.config.Footprints != nil {
		if measured, err := strconv.ParseInt(l.config.Footprints.Get(v.ID), 10, 64); err == nil && measured > 0 {
			f.Bytes = measured
			return f, nil
		}
	}
	inspection, err := l.inspect(ctx, v, dir)
	if err != nil {
		return f, err
	}
	f.Bytes = inspection.ParameterBytes * MemoryFactor
	return f, nil
}

// closeAll closes instances and calls those who wait for that. It returns err with what went wrong.
func closeAll[I edgewise.Instance](err error, instances []I, onClose []func()) error {
	for _, i := range instances {
		err = errors.Join(err, i.Close())
	}
	for _, f := range onClose {
		f()
	}
	return err
}
