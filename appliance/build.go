// Package appliance builds every part, connects them, and runs them until it is stopped.
//
// Read build.go first: it is all wiring, from top to bottom.
package appliance

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/access"
	"github.com/edgewise-ai/edgewise/appliance/alerts"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/cache"
	"github.com/edgewise-ai/edgewise/appliance/capacity"
	"github.com/edgewise-ai/edgewise/appliance/catalog"
	"github.com/edgewise-ai/edgewise/appliance/certificate"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/external"
	"github.com/edgewise-ai/edgewise/appliance/fleet"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/golden"
	"github.com/edgewise-ai/edgewise/appliance/grpcapi"
	"github.com/edgewise-ai/edgewise/appliance/history"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/importer"
	"github.com/edgewise-ai/edgewise/appliance/listen"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/monitor"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/appliance/recordings"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/remote"
	"github.com/edgewise-ai/edgewise/appliance/repository"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/appliance/roofline"
	"github.com/edgewise-ai/edgewise/appliance/safestart"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/ratelimit"
	"github.com/edgewise-ai/edgewise/appliance/sched/sequence"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/appliance/sharedmemory"
	"github.com/edgewise-ai/edgewise/appliance/tune"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/host"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/store/documents"
	"github.com/edgewise-ai/edgewise/wasm"
)

// App is the appliance, built and not yet running.
type App struct {
	config       config.Config
	logger       *slog.Logger
	store        *store.Store
	onnx         *onnx.Backend
	steps        *wasm.Backend
	external     *external.Backend
	formats      edgewise.Formats // of models
	hardware     *serving.Hardware
	serving      *serving.Loader
	manager      *manager.Manager
	registry     *registry.Registry
	repositories *repository.Repositories
	rollouts     *rollout.Rollouts
	tuner        *tune.Tuner
	insight      *roofline.Insight
	capacities   *capacity.Capacities
	fleet        *fleet.Fleet
	cache        *cache.Cache     // of responses
	inside       edgewise.Inferer // answers the requests of steps and ensembles
	engine       *engine
	shared       *sharedmemory.Registry
	rest         *httpapi.Server
	grpc         *grpcapi.Server // nil: there is none
	budget       *listen.Budget  // of connections

	documents  *documents.Documents
	accounts   *auth.Accounts
	identity   *certificate.Identity // nil: TLS is off
	processors *host.Load
	box        *box
	importer   *importer.Importer
	notes      registry.Notes
	history    *registry.History
	names      registry.Names
	monitor    *monitor.Monitor
	past       *history.History // of requests
	recordings *recordings.Recordings
	alerts     *alerts.Alerts
	catalog    *catalog.Catalog
	editor     *editor.Editor
	goldens    *golden.Goldens
	system     *system
	safe       *safestart.Counter
	offer      access.Offer // what tells programs on this machine how to reach this box

	tracer  *observe.Tracer
	latency *observe.Latencies
}

// New opens the store and builds every part. Errors: Invalid (the configuration), Conflict (another process holds the
// data folder), Corrupt (the catalog; see "edgewise doctor --repair"), Unsupported (a newer schema), Exhausted.
func New(c config.Config, logger *slog.Logger) (*App, error) {
	latency := newLatencies(c.Metrics)
	seen := monitor.New(latency)
	levels := logLevels(c.Log)
	logs := newLogging(levels, logger.Handler(), c.Log)
	logger = levels.Logger(seen.Logs.Handler(logger.Handler()))
	a := &App{config: c, logger: logger, monitor: seen, latency: latency, budget: listen.NewBudget()}
	var err error
	if a.tracer, err = newTracer(c.Trace, logger.With("part", "trace")); err != nil {
		return nil, err
	}
	a.store, err = store.Open(c.DataDir, storeOptions(c, logger))
	if err != nil {
		return nil, err
	}
	if err := a.openBox(); err != nil {
		return nil, errors.Join(err, a.closeBox(), a.store.Close())
	}
	a.onnx = onnx.New(onnx.Config{
		Library: c.ONNX.Library, Cores: coreCount(c), GPU: serving.GPUOptions(c), Logger: logger.With("part", "onnx"),
		Process: ort.Process{MaxMemory: serving.MaxMemory(c)},
	})
	a.hardware = serving.NewHardware(c, logger.With("part", "devices"))
	budget := coreBudget(c)
	a.steps, a.cache = newWasm(a, c, budget, logger), cache.New(int64(c.Engine.ResponseCacheBytes))
	a.external = serving.External(c, a.hardware, a.nested(), controller{a}, logger.With("part", "backends"))
	a.formats = Formats(a.external.Formats()...)
	a.serving = serving.New(a.servingConfig(budget, logger))
	a.alerts = alerts.New(a.alertsConfig())
	a.past = history.New(history.Config{
		Folder: filepath.Join(c.DataDir, "history"), Take: seen.History.Take, Minute: a.alerts.Minute,
		Named: a.names.Now, Logger: logger.With("part", "history"),
	})
	if err := a.openRecordings(); err != nil {
		return nil, errors.Join(err, a.closeBox(), a.store.Close())
	}
	a.followRenamings()
	updates := a.newUpdates(packaging(), helper.Client{}, update.BootID())
	a.system = &system{updates, a.newDrivers(packaging(), helper.Client{}, updates.Next), a, make(chan struct{})}
	a.safe = safestart.Open(c.DataDir, c.SafeStart, logger.With("part", "start"))
	a.openRegistry(budget)
	if err := errors.Join(a.openGoldens(), a.openImporter()); err != nil {
		a.safe.Undo()
		return nil, errors.Join(err, a.closeBox(), a.store.Close())
	}
	a.monitor.Resolve, a.monitor.Reached = a.manager.Resolve, a.rollouts.Observe
	a.inside = a.tracer.Inferer(a.monitor.Inside(a.manager))
	a.monitor.Outside = monitor.Timed{Inner: a.tracer.Inferer(a.manager), Explain: a.repositories.Explain}
	a.engine = &engine{
		Manager: a.manager, registry: a.registry, repositories: a.repositories, Monitor: a.monitor,
		safe: a.safe.Active, strict: c.Engine.StrictReadiness,
	}
	a.shared = sharedmemory.New(c.SharedMemory.Enabled)
	protocol := frontend.Deps{
		Engine: a.engine, Shared: a.shared, Name: c.Server.ID, Version: Version, AllocBody: a.engine.AllocBody,
		Labelled: a.registry.Labelled, Labels: a.registry.Classes, Logging: logs, Tracing: a.tracer,
	}
	a.editor, a.catalog, a.tuner = a.newEditor(), a.newCatalog(), a.newTuner(protocol)
	a.insight, a.capacities = a.newInsight(), a.newCapacities()
	a.rest, err = a.newREST(protocol)
	if err == nil && c.GRPC.Address != "" {
		a.grpc, err = grpcapi.New(a.grpcConfig(), grpcapi.Deps{
			Deps: protocol, Log: logger.With("part", "grpc"), Budget: a.budget, Authorize: a.grpcAuthorize(),
			Record: a.recordCall,
		})
	}
	if err != nil {
		a.safe.Undo()
		return nil, errors.Join(err, a.closeBox(), a.store.Close())
	}
	return a, nil
}

// openRegistry makes what is stored be served.
func (a *App) openRegistry(budget *cores.Budget) {
	c, logger := a.config, a.logger
	prove := func(ctx context.Context, id edgewise.ModelID) error { return a.goldens.Prove(ctx, id) }
	a.manager = manager.New(manager.Config{
		Load: func(ctx context.Context, v *edgewise.Version) (*manager.Loaded, error) {
			return a.registry.LoadVersion(ctx, v)
		},
		Replaces: a.serving.Replaces, Concurrency: c.Engine.LoadConcurrency, LoadTimeout: c.Engine.LoadTimeout,
		Logger: logger.With("part", "manager"),
		Footprint: func(ctx context.Context, v *edgewise.Version) (manager.Footprint, error) {
			return a.registry.Footprint(ctx, v)
		},
		Measured: func(id edgewise.ModelID, bytes int64) { a.registry.KeepFootprint(id, bytes) },
		Memory:   serving.ModelMemory(c), SequenceDrain: c.Engine.SequenceDrain,
	})
	a.registry = registry.New(registry.Config{
		Store: a.store, Serving: a.serving, Manager: a.manager, Documents: a.documents, History: a.history,
		Loading: a.safe.Loading, Changed: a.modelChanged, Keep: a.keptVersions,
		Renamed: a.followRenamings,
		Prove:   prove, Accepts: acceptsModel, Logger: logger.With("part", "registry"),
		Stage: func(ctx context.Context, id edgewise.ModelID) (bool, error) { return a.rollouts.Stage(ctx, id) },
	})
	read := logger.With("part", "repository")
	open := func(url string) repository.Source { return remote.Open(c, url, a.formats.Files(), read) }
	a.repositories = repository.New(c.Repository, open, a.registry, a.defaults(), read)
	a.rollouts = rollout.Open(rollout.Config{
		Documents: a.documents, Manager: a.manager, Models: a.registry, Prove: prove, Publish: a.publish,
		Tap: a.monitor.Tap, Infer: a.manager, Idle: func() bool { return budget.Idle() > 0 }, Threads: a.threads,
		Rules: func(model string) ([]admin.CompareRule, error) { return a.goldens.Rules(model) },
		Alert: a.alerts.Tell, Audit: a.accounts.Record, Logger: logger.With("part", "rollout"),
	})
}

// threads reads those of the process of a version.
func (a *App) threads(id edgewise.ModelID) map[int]host.Thread {
	measured, err := a.manager.Statistics(id)
	if err != nil || measured.Process == nil || measured.Process.PID == 0 {
		return nil
	}
	return host.Threads("/", measured.Process.PID)
}

// servingConfig is what loading versions needs.
func (a *App) servingConfig(budget *cores.Budget, logger *slog.Logger) serving.Config {
	c := a.config
	return serving.Config{
		Backends: []edgewise.Backend{serving.Isolate(a.onnx, c, coreCount(c), a.hardware, logger), a.steps, a.external},
		Defaults: a.defaults(), Devices: a.hardware, CoreCount: coreCount(c), Cores: budget,
		Limiter: limiter(c), States: sequence.NewStateBudget(int64(c.Engine.SequenceStateBytes)), Cache: a.cache,
		Trial:    serving.TrialConfig{Limit: c.GPU.TrialTime, Findings: registry.NewFindings(a.documents), Goldens: a.samples},
		MaxQueue: c.Engine.MaxQueue, Hold: sched.Hold{Queued: c.Engine.TestQueued, Backlog: c.Engine.TestBacklog},
		Footprints: registry.NewFootprints(a.documents), Gap: c.Engine.SwapWithoutRoom == config.SwapGap, Infer: a.nested(),
		Independent: func(id edgewise.ModelID) bool { return a.manager.Independent(id) },
		Loaded:      a.monitor.History.Loaded, Logger: logger.With("part", "serving"),
	}
}

// defaults are the box's answers to what a model's author leaves open: as many instances as there are cores for them.
func (a *App) defaults() modelconfig.Defaults {
	c := a.config
	return modelconfig.Defaults{
		Formats: a.formats, Places: a.external.Places, MaxBatchSize: int32(c.Engine.DefaultMaxBatchSize), InstanceCount: int32(coreCount(c)),
		Strict: !c.Engine.AutoComplete,
	}
}

// coreCount is how many cores the models have, all of them together.
func coreCount(c config.Config) int {
	if c.ONNX.Threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return c.ONNX.Threads
}

// coreBudget is the budget of the cores that the models have; with engine.pin_cores it knows which they are.
func coreBudget(c config.Config) *cores.Budget {
	var numbers []int
	if c.Engine.PinCores {
		numbers = host.Cores("/")
	}
	return cores.New(coreCount(c), numbers...)
}

// limiter is the rate limiter, nil when it is off.
func limiter(c config.Config) *ratelimit.Limiter {
	if c.Engine.RateLimit != config.RateLimitExecutionCount {
		return nil
	}
	return ratelimit.New(c.Engine.Resources())
}

// restrictions reads the groups of restricted APIs, which have been validated.
func restrictions(groups []string) []frontend.Restriction {
	var all []frontend.Restriction
	for _, group := range groups {
		if r, ok := config.ParseRestriction(group); ok {
			all = append(all, frontend.Restriction(r))
		}
	}
	return all
}

// compressionLevels are those of gzip.
var compressionLevels = map[string]int{
	config.CompressionNone: 0, config.CompressionLow: 1,
	config.CompressionMedium: 6, config.CompressionHigh: 9,
}

func (a *App) grpcConfig() grpcapi.Config {
	c, g := a.config, a.config.GRPC
	own, plain := a.grpcTLS()
	return grpcapi.Config{
		TLS: own, Plain: plain,
		MaxMessageBytes: int64(g.MaxMessageBytes), MaxInflightBytes: int64(g.MaxInflightBytes),
		MaxConnections: g.MaxConnections, MaxStreams: g.MaxStreams,
		ConnectTimeout: g.ConnectTimeout, RequestTimeout: c.Engine.RequestTimeout,
		KeepaliveTime: g.KeepaliveTime, KeepaliveTimeout: g.KeepaliveTimeout, KeepaliveMinInterval: g.KeepaliveMinInterval,
		KeepalivePermitWithoutCalls: g.KeepalivePermitWithoutCalls,
		MaxConnectionAge:            g.MaxConnectionAge, MaxConnectionAgeGrace: g.MaxConnectionAgeGrace,
		CertificateFile: g.TLSCertificate, KeyFile: g.TLSKey, ClientCertificateAuthorities: g.TLSClientAuthorities,
		CompressionLevel: compressionLevels[g.ResponseCompression], ForwardHeaders: g.ForwardHeaders,
		Restricted: restrictions(g.RestrictedAPI), TrustedProxies: c.HTTP.TrustedProxies,
	}
}

func storeOptions(c config.Config, logger *slog.Logger) store.Options {
	return store.Options{
		Reserve: int64(c.Store.ReserveBytes), MaxVersionBytes: int64(c.Upload.MaxBytes), MaxFiles: c.Upload.MaxFiles,
		MaxUploads:    c.Upload.Concurrent + 1,           // one for repositories
		SnapshotEvery: cmp.Or(c.Store.SnapshotEvery, -1), // the configuration's 0 is the store's "never"
		Snapshots:     c.Store.Snapshots, Logger: logger.With("part", "store"),
	}
}

// metrics returns the metrics page, nil when it is disabled.
func (a *App) metrics() func() ([]byte, string, error) {
	if !a.config.Metrics.Enabled {
		return nil
	}
	return observe.New(observe.Source{
		Samples: a.engine.samples, Statuses: a.manager.Statuses, Ready: a.engine.Ready,
		Disk: func() (used, free int64, err error) {
			usage, err := a.store.Usage()
			return usage.Bytes, usage.Free, err
		},
		GRPC: a.grpcUsage, Latencies: a.latency, Durations: a.config.Metrics.CounterLatencies, Machine: a.config.Metrics.CPU,
		Cache:   func() observe.CacheUsage { return observe.CacheUsage(a.cache.Usage()) },
		Devices: a.hardware.List, Outcomes: a.monitor.History.Outcomes, Unknown: a.monitor.History.Unknown,
		Rollouts: a.rollouts.Metrics, Own: a.ownMetrics, Repositories: a.repositories.States, Fleet: a.fleet.Metrics,
	}).Page
}

// ownMetrics returns the metrics that models make.
func (a *App) ownMetrics() (list []observe.Own) {
	a.external.Metrics.Each(func(name, kind, help string, series []external.Series) {
		for _, s := range series {
			list = append(list, observe.Own{Name: name, Kind: kind, Help: help, Series: observe.Series(s)})
		}
	})
	return list
}

// grpcUsage returns what the gRPC server counts about itself, nil when there is none.
func (a *App) grpcUsage() *observe.GRPCUsage {
	if a.grpc == nil {
		return nil
	}
	st := a.grpc.Statistics()
	usage := observe.GRPCUsage{Connections: st.Connections, InflightBytes: st.InflightBytes, Panics: st.Panics}
	for _, c := range st.Calls {
		usage.Calls = append(usage.Calls, observe.GRPCCalls(c))
	}
	return &usage
}

// closeTimeout bounds what Close waits for after the drain has been given up.
const closeTimeout = 5 * time.Second

// Version is the release of the program.
const Version = "0.1.0"
