package config

import (
	"fmt"
	"math"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Key describes one key of the configuration.
type Key struct {
	Name    string // dotted, as flags use it: "http.address"
	Env     string // the variable that sets it: "EDGEWISE_HTTP_ADDRESS"
	Default string // as the file writes it
	Unit    string // what its value is
	Want    string // its limits
	Doc     string // what it is for
}

// Value returns the value of a key in c, as the file writes it; "" for a key that does not exist.
func (c Config) Value(name string) string {
	for _, r := range rows {
		if r.name == name {
			return text(r.field(&c))
		}
	}
	return ""
}

// Keys returns every key, in the order of the configuration file.
func Keys() []Key {
	defaults := Default()
	keys := make([]Key, len(rows))
	for i, r := range rows {
		keys[i] = Key{Name: r.name, Env: variable(r.name), Default: text(r.field(&defaults)), Unit: r.unit, Want: r.limit.want, Doc: r.doc}
	}
	return keys
}

// variable returns the name of the environment variable of a key.
func variable(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

const envPrefix = "EDGEWISE_"

// row is a key and the field that holds its value: a pointer to a string, bool, int, Size, time.Duration or []string.
type row struct {
	name, unit string
	limit      limit
	doc        string
	field      func(*Config) any
}

// rows is the one table of keys.
var rows = []row{
	{"data_dir", "path", notEmpty, "Folder of the catalog and of the model files. A relative path starts at the working directory; the systemd unit sets it to /var/lib/edgewise.", func(c *Config) any { return &c.DataDir }},

	{"auth", "name", oneOf(AuthAccounts, AuthOpen), "Who may do what. accounts: people log in, devices have API keys, and everything is private but the health routes. open: whoever reaches the box may do everything, for a closed network or a test.", func(c *Config) any { return &c.Auth }},
	{"demo_key", "true or false", anything, "Whether the first start makes an API key for the demo and prints it once: it may run and look at every model.", func(c *Config) any { return &c.DemoKey }},

	{"server.id", "name", notEmptyName, "Name of the server in its metadata. Programs written for Triton compare it.", func(c *Config) any { return &c.Server.ID }},

	{"http.address", "host:port", limit{"a host (empty: every address) and a port from 0 to 65535, or nothing at all: no REST server", isAddressOrEmpty}, "Where the page and the REST server listen. Loopback; :8000 lets the network in.", func(c *Config) any { return &c.HTTP.Address }},
	{"http.reuse_port", "true or false", anything, "Whether other processes of the same user may listen on the port of http.address too.", func(c *Config) any { return &c.HTTP.ReusePort }},
	{"http.forward_headers", "regular expression", limit{"a regular expression as Go's package regexp reads it", isPattern}, "Request headers whose names match become parameters of the request, which steps read. The match may be partial and does not tell capitals from small letters, unless the expression begins with (?-i). Empty: none.", func(c *Config) any { return &c.HTTP.ForwardHeaders }},
	{"http.restricted_api", "list of APIs:header=value", limit{restrictionWant, areRestrictions}, "Parts of the inference protocol that are answered only to requests with a header of that value. The APIs of one group are separated by ';'.", func(c *Config) any { return &c.HTTP.RestrictedAPI }},
	{"http.max_json_bytes", "bytes", size(KiB, 2*GiB), "Largest JSON part of a request; also the largest body that is one raw tensor, and the largest one after decompression. JSON numbers take several times the memory of the tensor they describe.", func(c *Config) any { return &c.HTTP.MaxJSONBytes }},
	{"http.max_body_bytes", "bytes", size(KiB, 16*GiB), "Largest body of an inference request, binary tensors included.", func(c *Config) any { return &c.HTTP.MaxBodyBytes }},
	{"http.max_inflight_bytes", "bytes", size(KiB, TiB), "Most bytes of request bodies held at once, over all requests; beyond it requests are answered with busy.", func(c *Config) any { return &c.HTTP.MaxInflightBytes }},
	{"http.max_connections", "connections", count(1, 1<<16), "Most open connections; each takes a file descriptor and some memory.", func(c *Config) any { return &c.HTTP.MaxConnections }},
	{"http.header_timeout", "duration", duration(time.Millisecond, time.Hour), "Longest wait for the complete header of a request, against clients that send it drop by drop.", func(c *Config) any { return &c.HTTP.HeaderTimeout }},
	{"http.body_timeout", "duration", duration(time.Millisecond, 24*time.Hour), "Longest time without one byte of a body. Slow uploads go on for as long as bytes arrive.", func(c *Config) any { return &c.HTTP.BodyTimeout }},
	{"http.idle_timeout", "duration", duration(time.Millisecond, 24*time.Hour), "How long a connection without a request is kept.", func(c *Config) any { return &c.HTTP.IdleTimeout }},
	{"http.write_timeout", "duration", duration(time.Millisecond, 24*time.Hour), "Longest time a client may take no byte of its answer.", func(c *Config) any { return &c.HTTP.WriteTimeout }},
	{"http.allowed_hosts", "list of host names", limit{"at most 64 host names without port, or \"*\" for any name", areHosts}, "With auth open: names under which clients may call the box, beside localhost, its host name and its addresses. Other Host headers are refused then, against DNS rebinding; with accounts and with Triton's flags every name is answered. The box's own certificate is for these names too.", func(c *Config) any { return &c.HTTP.AllowedHosts }},
	{"http.cors_origins", "list of origins", limit{"at most 64 origins such as https://shop.example or http://localhost:5173, or \"*\" for any", areOrigins}, "Origins whose web pages may call the box with an API key, or without where none is needed. Sessions of people stay with the box's own page. A key can have origins of its own.", func(c *Config) any { return &c.HTTP.CORSOrigins }},

	{"tls.mode", "name", oneOf(TLSAuto, TLSRequire, TLSOff), "Who must speak TLS, over REST and gRPC alike. auto: everybody but clients on the box itself. require: everybody. off: nobody can, and passwords and keys cross the network for all to read.", func(c *Config) any { return &c.TLS.Mode }},

	{"grpc.address", "host:port", limit{"a host (empty: every address) and a port from 0 to 65535, or nothing at all: no gRPC server", isAddressOrEmpty}, "Where the gRPC server listens. Loopback, as http.address.", func(c *Config) any { return &c.GRPC.Address }},
	{"grpc.max_message_bytes", "bytes", limit{"1KiB to 2147483647, the protocol's own bound", size(KiB, 2*GiB-1).ok}, "Largest message of a client, before and after decompression. Clients that send more get RESOURCE_EXHAUSTED.", func(c *Config) any { return &c.GRPC.MaxMessageBytes }},
	{"grpc.max_inflight_bytes", "bytes", size(KiB, TiB), "Most bytes of the inference requests that are being answered over gRPC; beyond it they are answered with busy.", func(c *Config) any { return &c.GRPC.MaxInflightBytes }},
	{"grpc.max_connections", "connections", count(1, 1<<16), "Most open connections; those beyond it are closed.", func(c *Config) any { return &c.GRPC.MaxConnections }},
	{"grpc.max_streams", "calls", count(1, 1<<16), "Most calls in progress on one connection; clients keep back those beyond it.", func(c *Config) any { return &c.GRPC.MaxStreams }},
	{"grpc.connect_timeout", "duration", duration(time.Millisecond, time.Hour), "Longest time a new connection may take to begin, TLS included.", func(c *Config) any { return &c.GRPC.ConnectTimeout }},
	{"grpc.tls_certificate", "path", anything, "PEM file with the certificate of the server and those that lead to its authority. Empty: the box's own, as tls.mode says.", func(c *Config) any { return &c.GRPC.TLSCertificate }},
	{"grpc.tls_key", "path", anything, "PEM file with the key of grpc.tls_certificate.", func(c *Config) any { return &c.GRPC.TLSKey }},
	{"grpc.tls_client_authorities", "path", anything, "PEM file with authorities of which clients need a certificate. Empty: clients need none.", func(c *Config) any { return &c.GRPC.TLSClientAuthorities }},
	{"grpc.keepalive_time", "duration", duration(time.Second, 720*time.Hour), "Time without a sign of a client after which it is asked whether it is there.", func(c *Config) any { return &c.GRPC.KeepaliveTime }},
	{"grpc.keepalive_timeout", "duration", duration(time.Millisecond, time.Hour), "Longest wait for that answer; then the connection is closed.", func(c *Config) any { return &c.GRPC.KeepaliveTimeout }},
	{"grpc.keepalive_min_interval", "duration", duration(time.Millisecond, 720*time.Hour), "Least time between a client's own questions; clients that ask more often are cut off.", func(c *Config) any { return &c.GRPC.KeepaliveMinInterval }},
	{"grpc.keepalive_permit_without_calls", "true or false", anything, "Whether clients may ask while they have no call in progress.", func(c *Config) any { return &c.GRPC.KeepalivePermitWithoutCalls }},
	{"grpc.max_connection_age", "duration", durationOrZero(time.Second, 8760*time.Hour), "Age at which a connection is closed in order, so that clients come back through a load balancer. 0: never.", func(c *Config) any { return &c.GRPC.MaxConnectionAge }},
	{"grpc.max_connection_age_grace", "duration", durationOrZero(time.Millisecond, 8760*time.Hour), "How long calls in progress on such a connection may go on. 0: as long as they need.", func(c *Config) any { return &c.GRPC.MaxConnectionAgeGrace }},

	{"grpc.reuse_port", "true or false", anything, "Whether other processes of the same user may listen on the port of grpc.address too.", func(c *Config) any { return &c.GRPC.ReusePort }},
	{"grpc.forward_headers", "regular expression", limit{"a regular expression as Go's package regexp reads it", isPattern}, "As http.forward_headers, for the metadata of gRPC calls.", func(c *Config) any { return &c.GRPC.ForwardHeaders }},
	{"grpc.restricted_api", "list of APIs:key=value", limit{restrictionWant, areRestrictions}, "As http.restricted_api; the metadata's key is triton-grpc-protocol- and the key given here.", func(c *Config) any { return &c.GRPC.RestrictedAPI }},
	{"grpc.response_compression", "name", oneOf(CompressionNone, CompressionLow, CompressionMedium, CompressionHigh), "How hard answers of inferences are compressed for clients that take gzip.", func(c *Config) any { return &c.GRPC.ResponseCompression }},

	{"upload.max_bytes", "bytes", size(KiB, 16*TiB), "Largest upload, all files of a version together.", func(c *Config) any { return &c.Upload.MaxBytes }},
	{"upload.max_files", "files", count(1, 1<<16), "Most files of one version.", func(c *Config) any { return &c.Upload.MaxFiles }},
	{"upload.concurrent", "uploads", count(1, 64), "Most uploads at the same time; they share the disk with loading models.", func(c *Config) any { return &c.Upload.Concurrent }},

	{"store.reserve_bytes", "bytes", size(0, 16*TiB), "Space that uploads leave free on the disk of data_dir, so that logs and the catalog can still be written.", func(c *Config) any { return &c.Store.ReserveBytes }},
	{"store.snapshot_every", "duration", durationOrZero(time.Minute, 720*time.Hour), "How often the catalog is copied aside. 0 switches snapshots off.", func(c *Config) any { return &c.Store.SnapshotEvery }},
	{"store.snapshots", "snapshots", count(1, 1000), "How many copies of the catalog are kept.", func(c *Config) any { return &c.Store.Snapshots }},

	{"repository.folders", "list of paths", limit{"at most 64 paths", atMost(64)}, "Folders in Triton's repository layout. What stands in them is brought into the store and served under the folders' own version numbers. One model's folder, or a folder with the files of one version alone, may be given too.", func(c *Config) any { return &c.Repository.Folders }},
	{"repository.control_mode", "name", oneOf(ControlNone, ControlPoll, ControlExplicit), "When models of repository.folders are loaded. none: all at the start. poll: also when their folders change. explicit: those in load_models at the start, and what clients ask for.", func(c *Config) any { return &c.Repository.ControlMode }},
	{"repository.load_models", "list of names", limit{"at most 10000 names", atMost(10_000)}, "Models that are loaded at the start with control_mode explicit; \"*\" alone for all.", func(c *Config) any { return &c.Repository.LoadModels }},
	{"repository.poll_interval", "duration", duration(100*time.Millisecond, 24*time.Hour), "How often the folders are looked at with control_mode poll.", func(c *Config) any { return &c.Repository.PollInterval }},
	{"repository.config_name", "name", anything, "Models that have a file configs/NAME.pbtxt are configured by it, in place of their config.pbtxt.", func(c *Config) any { return &c.Repository.ConfigName }},
	{"repository.load_retries", "loads", count(0, 1000), "How often a model of repository.folders that failed to load is tried again.", func(c *Config) any { return &c.Repository.LoadRetries }},
	{"repository.exit_on_error", "true or false", anything, "Whether the box stops when a model of repository.folders fails to load at the start.", func(c *Config) any { return &c.Repository.ExitOnError }},

	{"onnx.library", "path", anything, "The file libonnxruntime.so. Empty: it is searched beside the program and in the system's library folders.", func(c *Config) any { return &c.ONNX.Library }},
	{"onnx.threads", "threads", count(0, 1024), "Threads for running models: the sum over all models of the runs at a time, times the threads of a run, stays within it. Also the count of an instance group that says none. 0: as many as there are cores.", func(c *Config) any { return &c.ONNX.Threads }},

	{"gpu.mode", "name", oneOf(GPUAuto, GPUOff), "auto: models run on the GPUs that are found, unless their configuration says otherwise. off: GPUs are not looked for.", func(c *Config) any { return &c.GPU.Mode }},
	{"gpu.driver", "path", anything, "The file libcuda.so.1. Empty: it is searched in the system's library folders and where Jetsons and containers keep it.", func(c *Config) any { return &c.GPU.Driver }},
	{"gpu.telemetry", "path", anything, "The file libnvidia-ml.so.1, which tells load, memory and temperature of GPUs. Empty: it is searched as gpu.driver.", func(c *Config) any { return &c.GPU.Telemetry }},
	{"gpu.telemetry_every", "duration", duration(100*time.Millisecond, time.Hour), "How often load, memory and temperature of GPUs are read.", func(c *Config) any { return &c.GPU.TelemetryEvery }},
	{"gpu.libraries", "list of folders", limit{"at most 64 absolute paths", areFolders}, "Folders in which NVIDIA's libraries (libcudart, libcublas, libcudnn and others) are looked for first. Files that others than root and the box's own user may change are not used.", func(c *Config) any { return &c.GPU.Libraries }},
	{"gpu.devices", "list of numbers or UUIDs", limit{"at most 64 numbers, in the order of the PCI bus, or UUIDs", areDevices}, "The GPUs that the box may use. Empty: all of them.", func(c *Config) any { return &c.GPU.Devices }},
	{"gpu.max_memory_bytes", "bytes", size(0, 16*TiB), "Memory of each GPU that models may take together. 0: nine tenths of what there is, less 512 MiB.", func(c *Config) any { return &c.GPU.MaxMemoryBytes }},

	{"wasm.max_memory_bytes", "bytes", size(MiB, GiB), "Memory of one guest of a WebAssembly step. A model's max_memory_mebibyte can lower it.", func(c *Config) any { return &c.Wasm.MaxMemoryBytes }},
	{"wasm.run_timeout", "duration", duration(time.Millisecond, 24*time.Hour), "Longest run of a step for one request, where the request itself has no earlier end. Long before that, models go before it (docs/steps-abi.md, \"Models go first\").", func(c *Config) any { return &c.Wasm.RunTimeout }},
	{"wasm.cache_bytes", "bytes", size(MiB, TiB), "Disk for compiled steps, below data_dir; beyond it the oldest are removed and compiled again when they are loaded.", func(c *Config) any { return &c.Wasm.CacheBytes }},

	{"engine.max_queue", "requests", count(1, 1<<20), "Requests that may wait for one model; beyond it requests are answered with busy. A model's max_queue_size can lower it.", func(c *Config) any { return &c.Engine.MaxQueue }},
	{"engine.test_queued", "requests", count(0, 1<<20), "For tests of batching, never for service: each model that batches runs nothing until so many requests wait for it; then it runs as ever. Also TRITONSERVER_DELAY_SCHEDULER. 0: nothing waits.", func(c *Config) any { return &c.Engine.TestQueued }},
	{"engine.test_backlog", "requests", count(0, 1<<20), "Beside engine.test_queued, for models with sequences and the strategy direct: until so many requests of sequences without a slot wait, too. Also TRITONSERVER_BACKLOG_DELAY_SCHEDULER.", func(c *Config) any { return &c.Engine.TestBacklog }},
	{"engine.request_timeout", "duration", durationOrZero(time.Millisecond, 24*time.Hour), "Longest wait and run of one request together. 0: no bound beside the client's own.", func(c *Config) any { return &c.Engine.RequestTimeout }},
	{"engine.load_timeout", "duration", duration(time.Second, 24*time.Hour), "Longest load of one version, warm-up included; after it the load has failed.", func(c *Config) any { return &c.Engine.LoadTimeout }},
	{"engine.load_concurrency", "loads", count(1, 64), "Versions that are loaded at the same time; each takes cores and memory from the models that serve.", func(c *Config) any { return &c.Engine.LoadConcurrency }},
	{"engine.default_max_batch_size", "elements", count(0, 1<<16), "max_batch_size of models that can batch and do not say how much. 0: they are not batched.", func(c *Config) any { return &c.Engine.DefaultMaxBatchSize }},
	{"engine.auto_complete", "true or false", anything, "Whether what a configuration leaves open is read out of the model's file. Without it a configuration must name the inputs and outputs.", func(c *Config) any { return &c.Engine.AutoComplete }},
	{"engine.strict_readiness", "true or false", anything, "Whether the server is ready only while every model that is to be served is ready.", func(c *Config) any { return &c.Engine.StrictReadiness }},
	{"engine.isolation", "name", oneOf(IsolationProcess, IsolationModel, IsolationNone), "Where native code runs. process: each version in a child process of its own, so that a crash or a leak costs that model one second. none: in the server's process, some microseconds faster, but for models whose parameter isolation is process or group:NAME. model: as that parameter says: process, none, or group:NAME, which puts all models of that name into one child process; process where it is not set.", func(c *Config) any { return &c.Engine.Isolation }},
	{"engine.max_memory_bytes", "bytes", size(0, 16*TiB), "Memory that all loaded models may take together. A version is taken to need 3 times the bytes of its weights, or what its parameter memory_bytes says; one that finds no room is not loaded. 0: no bound.", func(c *Config) any { return &c.Engine.MaxMemoryBytes }},
	{"engine.swap_without_room", "name", oneOf(SwapRefuse, SwapGap), "What is done when a version is to become live and there is too little memory for it beside the old one. refuse: the old one stays. gap: the old one is unloaded first, and the model is unavailable until the new one is ready. A model's parameter swap_without_room goes first.", func(c *Config) any { return &c.Engine.SwapWithoutRoom }},
	{"engine.load_cpu_time", "duration", duration(time.Second, 24*time.Hour), "Most processor time that the child process of a version may take for its load, all threads together; beyond it the load has failed.", func(c *Config) any { return &c.Engine.LoadCPUTime }},
	{"engine.max_address_space", "bytes", size(0, 16*TiB), "Address space of a child process, which bounds its memory; a small model takes about 3 GiB of it. 0: no bound.", func(c *Config) any { return &c.Engine.MaxAddressSpace }},
	{"engine.response_cache_bytes", "bytes", size(0, 16*TiB), "Memory for kept answers of models that set response_cache; those asked for longest ago go first. 0: there is no cache, and such models are refused.", func(c *Config) any { return &c.Engine.ResponseCacheBytes }},
	{"engine.rate_limit", "name", oneOf(RateLimitOff, RateLimitExecutionCount), "Whether instances wait for the resources that rate_limiter of their models names. execution_count: an instance runs only while there is enough of everything that it needs, and among those that wait the one goes first that has run the least, times its priority. off: rate_limiter has no effect.", func(c *Config) any { return &c.Engine.RateLimit }},
	{"engine.rate_limit_resources", "list of resources", limit{"at most 64 resources as name:count, each name once", areResources}, "How much there is of resources that models name. Of others there is as much as the instance needs that needs most.", func(c *Config) any { return &c.Engine.RateLimitResources }},
	{"engine.sequence_state_bytes", "bytes", size(KiB, TiB), "Memory for the implicit states of all sequences of all models. A request that finds no room for the state it leaves behind fails, and its sequence stays as it was.", func(c *Config) any { return &c.Engine.SequenceStateBytes }},
	{"engine.sequence_drain", "duration", durationOrZero(time.Millisecond, 24*time.Hour), "How long a version that is replaced or unloaded goes on answering the sequences that it has begun; then they have to start again. A box that is stopped does so, too, for half of shutdown.timeout at most. 0: what has been taken is answered and no more.", func(c *Config) any { return &c.Engine.SequenceDrain }},

	{"shared_memory.enabled", "true or false", anything, "Whether clients on the same machine may register POSIX shared memory and name it in requests instead of sending tensors. The box needs the right to open their objects in /dev/shm.", func(c *Config) any { return &c.SharedMemory.Enabled }},

	{"shutdown.timeout", "duration", durationOrZero(time.Millisecond, time.Hour), "How long a stop waits for requests in flight before it drops them.", func(c *Config) any { return &c.Shutdown.Timeout }},

	{"log.level", "name", oneOf("debug", "info", "warn", "error"), "The least severe lines that are logged.", func(c *Config) any { return &c.Log.Level }},
	{"log.format", "name", oneOf(LogText, LogJSON, LogTriton, LogTritonISO8601), "How log lines are written. triton and triton-iso8601: as Triton's formats default and ISO8601.", func(c *Config) any { return &c.Log.Format }},
	{"log.file", "path", anything, "File that log lines are appended to. Empty: standard error.", func(c *Config) any { return &c.Log.File }},
	{"log.info", "true or false", anything, "Whether lines of level info are logged, where log.level lets them through.", func(c *Config) any { return &c.Log.Info }},
	{"log.warning", "true or false", anything, "Whether warnings are logged, where log.level lets them through.", func(c *Config) any { return &c.Log.Warning }},
	{"log.error", "true or false", anything, "Whether errors are logged.", func(c *Config) any { return &c.Log.Error }},
	{"log.verbose", "number", count(0, math.MaxInt32), "Above 0, details are logged as with the level debug.", func(c *Config) any { return &c.Log.Verbose }},

	{"metrics.enabled", "true or false", anything, "Whether /metrics answers.", func(c *Config) any { return &c.Metrics.Enabled }},
	{"metrics.public", "true or false", anything, "Whether /metrics answers without a key, until the setting is changed in the page.", func(c *Config) any { return &c.Metrics.Public }},
	{"metrics.address", "host:port", limit{"a host (empty: every address) and a port from 0 to 65535, or nothing at all: only the REST server has the page", isAddressOrEmpty}, "Where the metrics page stands by itself, beside that of the REST server.", func(c *Config) any { return &c.Metrics.Address }},
	{"metrics.cpu", "true or false", anything, "Whether the machine's use of processors and memory is on the page.", func(c *Config) any { return &c.Metrics.CPU }},
	{"metrics.counter_latencies", "true or false", anything, "Whether the cumulative times of Triton's names are on the page.", func(c *Config) any { return &c.Metrics.CounterLatencies }},
	{"metrics.histogram_latencies", "true or false", anything, "Whether nv_inference_first_response_histogram_ms is on the page. The finer edgewise_request_seconds always is.", func(c *Config) any { return &c.Metrics.HistogramLatencies }},
	{"metrics.summary_latencies", "true or false", anything, "Whether the summaries of times are on the page.", func(c *Config) any { return &c.Metrics.SummaryLatencies }},
	{"metrics.summary_quantiles", "list of quantile:error", limit{"up to 16 pairs of numbers above 0 and below 1", areQuantiles}, "The quantiles of the summaries, each with the error that is allowed.", func(c *Config) any { return &c.Metrics.SummaryQuantiles }},

	{"trace.levels", "list of names", limit{"OFF alone, or of TIMESTAMPS and TENSORS", areTraceLevels}, "What is noted of traced requests.", func(c *Config) any { return &c.Trace.Levels }},
	{"trace.rate", "requests", count(0, math.MaxInt32), "One of so many requests is traced. 0: only those that come with a W3C trace context, with mode opentelemetry.", func(c *Config) any { return &c.Trace.Rate }},
	{"trace.count", "requests", count(-1, math.MaxInt32), "So many requests are traced, and then no more. -1: any number.", func(c *Config) any { return &c.Trace.Count }},
	{"trace.mode", "name", oneOf(TraceTriton, TraceOpenTelemetry), "Where traces go. triton: to trace.file, as Triton writes it. opentelemetry: to trace.url.", func(c *Config) any { return &c.Trace.Mode }},
	{"trace.file", "path", anything, "File that traces are written to with mode triton. Empty: nothing is written.", func(c *Config) any { return &c.Trace.File }},
	{"trace.log_frequency", "traces", count(0, math.MaxInt32), "How many traces one file gets: the first ones go to trace.file.0, the next to trace.file.1. 0: all go to trace.file.", func(c *Config) any { return &c.Trace.LogFrequency }},
	{"trace.url", "URL", limit{"an http or https URL", isURL}, "Where an OpenTelemetry collector takes traces over HTTP.", func(c *Config) any { return &c.Trace.URL }},
	{"trace.resource", "list of name=value", limit{"at most 64 pairs", arePairs}, "What is said of this box in its traces, beside service.name.", func(c *Config) any { return &c.Trace.Resource }},
	{"trace.queue_size", "spans", count(1, 1<<20), "Spans that wait to be exported; beyond it they are dropped.", func(c *Config) any { return &c.Trace.QueueSize }},
	{"trace.export_delay", "duration", duration(time.Millisecond, time.Hour), "How long a span waits for others before it is exported.", func(c *Config) any { return &c.Trace.ExportDelay }},
	{"trace.export_batch", "spans", count(1, 1<<16), "Most spans in one export.", func(c *Config) any { return &c.Trace.ExportBatch }},
}

// limit says which values a key may have. ok takes the pointer that row.field returns.
type limit struct {
	want string
	ok   func(field any) bool
}

var (
	anything     = limit{"", func(any) bool { return true }}
	notEmptyName = limit{"a name", func(field any) bool { return *field.(*string) != "" }}
	notEmpty     = limit{"a path", func(field any) bool { return *field.(*string) != "" }}
)

func size(least, most Size) limit {
	return limit{fmt.Sprintf("%v to %v", least, most), func(field any) bool {
		s := *field.(*Size)
		return least <= s && s <= most
	}}
}

func count(least, most int) limit {
	return limit{fmt.Sprintf("%d to %d", least, most), func(field any) bool {
		n := *field.(*int)
		return least <= n && n <= most
	}}
}

func duration(least, most time.Duration) limit {
	return limit{text(&least) + " to " + text(&most), func(field any) bool {
		d := *field.(*time.Duration)
		return least <= d && d <= most
	}}
}

func durationOrZero(least, most time.Duration) limit {
	within := duration(least, most)
	return limit{"0, or " + within.want, func(field any) bool { return *field.(*time.Duration) == 0 || within.ok(field) }}
}

func atMost(n int) func(field any) bool {
	return func(field any) bool { return len(*field.(*[]string)) <= n }
}

func oneOf(names ...string) limit {
	return limit{"one of " + strings.Join(names, ", "), func(field any) bool { return slices.Contains(names, *field.(*string)) }}
}

func isAddress(field any) bool {
	_, port, err := net.SplitHostPort(*field.(*string))
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isAddressOrEmpty(field any) bool { return *field.(*string) == "" || isAddress(field) }

var hostName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)

// maxListed bounds the entries of a list.
const maxListed = 64

func areFolders(field any) bool {
	list := *field.(*[]string)
	return len(list) <= maxListed && !slices.ContainsFunc(list, func(s string) bool { return !filepath.IsAbs(s) })
}

var device = regexp.MustCompile(`^([0-9]{1,3}|(GPU|MIG)-[0-9A-Za-z/-]{1,80})$`)

func areDevices(field any) bool {
	list := *field.(*[]string)
	return len(list) <= maxListed && !slices.ContainsFunc(list, func(s string) bool { return !device.MatchString(s) })
}

func areOrigins(field any) bool {
	origins := *field.(*[]string)
	for _, o := range origins {
		if edgewise.CheckOrigin(o) != nil {
			return false
		}
	}
	return len(origins) <= 64
}

func areHosts(field any) bool {
	hosts := *field.(*[]string)
	for _, h := range hosts {
		if h != "*" && (len(h) > 253 || !hostName.MatchString(h)) {
			return false
		}
	}
	return len(hosts) <= 64
}
