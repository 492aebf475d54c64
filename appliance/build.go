package appliance

import (
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/cache"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/grpcapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sharedmemory"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/store"
)

// App is the appliance, built and not yet running.
type App struct {
	config  config.Config
	logger  *slog.Logger
	store   *store.Store
	onnx    *onnx.Backend
	devices *devices
	manager *manager.Manager
	library *library
	engine  *engine
	shared  *sharedmemory.Registry
	door    *httpapi.Server
	grpc    *grpcapi.Server // nil: there is none
}

// New opens the store and builds every part. Errors: Invalid (the configuration), Conflict (another process holds the
// data folder), Corrupt (the catalog; see "edgewise doctor --repair"), Unsupported (a newer schema), Exhausted.
func New(c config.Config, logger *slog.Logger) (*App, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(c.Log.Level)); err != nil {
		return nil, edgewise.Errorf("appliance.New", edgewise.Invalid, "log.level: %w", err)
	}
	levels := observe.NewLogLevels(least)
	logger = levels.Logger(logger.Handler())
	a := &App{config: c, logger: logger}
	var err error
	a.store, err = store.Open(c.DataDir, storeOptions(c, logger))
	if err != nil {
		return nil, err
	}
	a.onnx = onnx.New(onnx.Config{Library: c.ONNX.Library, Cores: cores(c), GPU: gpuOptions(c), Logger: logger.With("part", "onnx")})
	a.devices = newDevices(c, logger.With("part", "devices"))
	a.library = &library{
		store: a.store, locks: newLocks(), cache: cache.New(int64(c.Engine.ResponseCacheBytes)), logger: logger.With("part", "library"),
		config: libraryConfig{
			Backends: []edgewise.Backend{newIsolation(a.onnx, c, a.devices, logger), newWasm(a, c, logger)}, Defaults: defaults(c), MaxQueue: c.Engine.MaxQueue,
			CoreCount: cores(c), Cores: sched.NewCores(cores(c)), GPUs: a.devices.usable, GPUMemory: newGPUMemory(a.devices.usable, logger), Slowed: a.devices.slowed, Gap: c.Engine.SwapWithoutRoom == config.SwapGap,
		},
	}
	a.manager = manager.New(manager.Config{
		Load: a.library.load, Concurrency: c.Engine.LoadConcurrency, LoadTimeout: c.Engine.LoadTimeout, Logger: logger.With("part", "manager"),
		Footprint: a.library.footprint, Memory: int64(c.Engine.MaxMemoryBytes),
	})
	a.library.manager = a.manager
	a.engine = &engine{Manager: a.manager, library: a.library, strict: c.Engine.StrictReadiness}
	a.shared = sharedmemory.New(c.SharedMemory.Enabled)
	a.door, err = httpapi.New(doorConfig(c), httpapi.Deps{
		Engine: a.engine, Library: a.library, Shared: a.shared, Log: logger.With("part", "http"), Name: Name, Version: Version,
		Metrics: a.metrics(), Labels: a.library.labels, Logging: levels,
	})
	if err == nil && c.GRPC.Address != "" {
		a.grpc, err = grpcapi.New(grpcConfig(c), grpcapi.Deps{
			Engine: a.engine, Shared: a.shared, Log: logger.With("part", "grpc"), Name: Name, Version: Version, Extensions: kserve.Extensions(), Labels: a.library.labels,
		})
	}
	if err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

// defaults are the box's answers to what a model's author leaves open: as many instances as there are cores for them.
func defaults(c config.Config) modelconfig.Defaults {
	return modelconfig.Defaults{MaxBatchSize: int32(c.Engine.DefaultMaxBatchSize), InstanceCount: int32(cores(c))}
}

// cores is how many cores the models have, all of them together.
func cores(c config.Config) int {
	if c.ONNX.Threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return c.ONNX.Threads
}

func doorConfig(c config.Config) httpapi.Config {
	return httpapi.Config{
		MaxConnections: c.HTTP.MaxConnections, MaxJSONBytes: int64(c.HTTP.MaxJSONBytes), MaxInferBytes: int64(c.HTTP.MaxBodyBytes), MaxUploadBytes: int64(c.Upload.MaxBytes) + tarOverhead,
		MaxUploadFiles: c.Upload.MaxFiles, MaxInflightBytes: int64(c.HTTP.MaxInflightBytes), HeaderTimeout: c.HTTP.HeaderTimeout,
		BodyTimeout: c.HTTP.BodyTimeout, WriteTimeout: c.HTTP.WriteTimeout, IdleTimeout: c.HTTP.IdleTimeout, RequestTimeout: c.Engine.RequestTimeout, AllowedHosts: c.HTTP.AllowedHosts,
	}
}

func grpcConfig(c config.Config) grpcapi.Config {
	g := c.GRPC
	return grpcapi.Config{
		MaxMessageBytes: int64(g.MaxMessageBytes), MaxInflightBytes: int64(g.MaxInflightBytes), MaxConnections: g.MaxConnections, MaxStreams: g.MaxStreams,
		ConnectTimeout: g.ConnectTimeout, RequestTimeout: c.Engine.RequestTimeout,
		KeepaliveTime: g.KeepaliveTime, KeepaliveTimeout: g.KeepaliveTimeout, KeepaliveMinInterval: g.KeepaliveMinInterval, KeepalivePermitWithoutCalls: g.KeepalivePermitWithoutCalls,
		MaxConnectionAge: g.MaxConnectionAge, MaxConnectionAgeGrace: g.MaxConnectionAgeGrace,
		CertificateFile: g.TLSCertificate, KeyFile: g.TLSKey, ClientCertificateAuthorities: g.TLSClientAuthorities,
	}
}

func storeOptions(c config.Config, logger *slog.Logger) store.Options {
	return store.Options{
		Reserve: int64(c.Store.ReserveBytes), MaxVersionBytes: int64(c.Upload.MaxBytes), MaxFiles: c.Upload.MaxFiles,
		MaxUploads: c.Upload.Concurrent, SnapshotEvery: snapshotEvery(c), Snapshots: c.Store.Snapshots, Logger: logger.With("part", "store"),
	}
}

// snapshotEvery is the store's interval; the configuration's 0 is its "never".
func snapshotEvery(c config.Config) time.Duration {
	if c.Store.SnapshotEvery == 0 {
		return -1
	}
	return c.Store.SnapshotEvery
}

// tarOverhead is what an archive of many files may take beside their bytes.
const tarOverhead = 64 << 20

// metrics returns the metrics page, nil when it is switched off.
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
		GRPC:    a.grpcUsage,
		Cache:   func() observe.CacheUsage { return observe.CacheUsage(a.library.cache.Usage()) },
		Devices: a.devices.list,
	}).Page
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
