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
		keys[i] = Key{
			Name: r.name, Env: variable(r.name), Default: text(r.field(&defaults)), Unit: r.unit,
			Want: r.limit.want, Doc: r.doc,
		}
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
	{
		"data_dir", "path", notEmpty,
		"Folder of the catalog and of the model files. A relative path starts at the working directory; the " +
			"systemd unit sets it to /var/lib/edgewise.",
		func(c *Config) any { return &c.DataDir },
	},

	{
		"auth", "name", oneOf(AuthAccounts, AuthOpen),
		"Authentication. accounts: users log in, devices have API keys, and only the health routes are " +
			"public. open: every client has all rights, for a closed network or a test.",
		func(c *Config) any { return &c.Auth },
	},
	{
		"demo_key", "true or false", anything,
		"Whether the first start makes an API key for the demo and prints it once: it may run and read every " +
			"model.",
		func(c *Config) any { return &c.DemoKey },
	},

	{
		"server.id", "name", notEmptyName,
		"Name of the server in its metadata. Programs written for Triton compare it.",
		func(c *Config) any { return &c.Server.ID },
	},

	{
		"http.address", "host:port",
		limit{
			"a host (empty: every address) and a port from 0 to 65535, or nothing at all: no REST server",
			isAddressOrEmpty,
		},
		"Where the page and the REST server listen. Loopback; :8000 lets the network in.",
		func(c *Config) any { return &c.HTTP.Address },
	},
	{
		"http.reuse_port", "true or false", anything,
		"Whether other processes of the same user may listen on the port of http.address too.",
		func(c *Config) any { return &c.HTTP.ReusePort },
	},
	{
		"http.forward_headers", "regular expression",
		limit{
			"a regular expression as Go's package regexp reads it",
			isPattern,
		},
		"Request headers whose names match become parameters of the request, which steps read. The match may " +
			"be partial and ignores case, unless the expression begins with (?-i). Empty: none.",
		func(c *Config) any { return &c.HTTP.ForwardHeaders },
	},
	{
		"http.restricted_api", "list of APIs:header=value",
		limit{restrictionWant, areRestrictions},
		"Parts of the inference protocol that are answered only to requests with a header of that value. The " +
			"APIs of one group are separated by ';'.",
		func(c *Config) any { return &c.HTTP.RestrictedAPI },
	},
	{
		"http.max_json_bytes", "bytes", size(KiB, 2*GiB),
		"Maximum JSON part of a request, body of one raw tensor, and body after decompression. JSON numbers " +
			"take several times the memory of the tensor they describe.",
		func(c *Config) any { return &c.HTTP.MaxJSONBytes },
	},
	{
		"http.max_body_bytes", "bytes", size(KiB, 16*GiB),
		"Maximum body of an inference request, including binary tensors.",
		func(c *Config) any { return &c.HTTP.MaxBodyBytes },
	},
	{
		"http.max_inflight_bytes", "bytes", size(KiB, TiB),
		"Maximum memory of all request bodies together; above it requests are answered with busy.",
		func(c *Config) any { return &c.HTTP.MaxInflightBytes },
	},
	{
		"http.max_connections", "connections", count(1, 1<<16),
		"Maximum open connections; each needs a file descriptor and some memory.",
		func(c *Config) any { return &c.HTTP.MaxConnections },
	},
	{
		"http.header_timeout", "duration", duration(time.Millisecond, time.Hour),
		"Time limit for the complete header of a request, against slow clients.",
		func(c *Config) any { return &c.HTTP.HeaderTimeout },
	},
	{
		"http.body_timeout", "duration", duration(time.Millisecond, 24*time.Hour),
		"Time limit between bytes of a body. Slow uploads continue as long as bytes arrive.",
		func(c *Config) any { return &c.HTTP.BodyTimeout },
	},
	{
		"http.idle_timeout", "duration", duration(time.Millisecond, 24*time.Hour),
		"How long a connection without a request is kept.",
		func(c *Config) any { return &c.HTTP.IdleTimeout },
	},
	{
		"http.write_timeout", "duration", duration(time.Millisecond, 24*time.Hour),
		"Time limit between bytes of a response that the client reads.",
		func(c *Config) any { return &c.HTTP.WriteTimeout },
	},
	{
		"http.allowed_hosts", "list of host names",
		limit{
			"at most 64 host names without port, or \"*\" for any name",
			areHosts,
		},
		"With auth open: host names that clients may use, beside localhost, the host name and the addresses. " +
			"Other Host headers are refused then, against DNS rebinding; with accounts and with Triton's flags " +
			"every name is answered. The self-signed certificate includes these names.",
		func(c *Config) any { return &c.HTTP.AllowedHosts },
	},
	{
		"http.cors_origins", "list of origins",
		limit{
			"at most 64 origins such as https://shop.example or http://localhost:5173, or \"*\" for any",
			areOrigins,
		},
		"Origins whose web pages may call the box with an API key, or without where none is needed. Sessions " +
			"of users are limited to the box's own page. A key can have origins of its own.",
		func(c *Config) any { return &c.HTTP.CORSOrigins },
	},

	{
		"tls.mode", "name", oneOf(TLSAuto, TLSRequire, TLSOff),
		"Whether TLS is required, for REST and gRPC. auto: except for clients on the box itself. require: for " +
			"all clients. off: TLS is disabled, and passwords and keys are sent in plain text.",
		func(c *Config) any { return &c.TLS.Mode },
	},

	{
		"grpc.address", "host:port",
		limit{
			"a host (empty: every address) and a port from 0 to 65535, or nothing at all: no gRPC server",
			isAddressOrEmpty,
		},
		"Where the gRPC server listens. Loopback, as http.address.",
		func(c *Config) any { return &c.GRPC.Address },
	},
	{
		"grpc.max_message_bytes", "bytes",
		limit{"1KiB to 2147483647, the protocol's own bound", size(KiB, 2*GiB-1).ok},
		"Maximum message of a client, before and after decompression. Clients that send more get " +
			"RESOURCE_EXHAUSTED.",
		func(c *Config) any { return &c.GRPC.MaxMessageBytes },
	},
	{
		"grpc.max_inflight_bytes", "bytes", size(KiB, TiB),
		"Maximum memory of all gRPC inference requests together; above it they are answered with busy.",
		func(c *Config) any { return &c.GRPC.MaxInflightBytes },
	},
	{
		"grpc.max_connections", "connections", count(1, 1<<16),
		"Maximum open connections; further ones are closed.",
		func(c *Config) any { return &c.GRPC.MaxConnections },
	},
	{
		"grpc.max_streams", "calls", count(1, 1<<16),
		"Maximum calls in progress on one connection; clients queue further ones.",
		func(c *Config) any { return &c.GRPC.MaxStreams },
	},
	{
		"grpc.connect_timeout", "duration", duration(time.Millisecond, time.Hour),
		"Time limit for the handshake of a new connection, including TLS.",
		func(c *Config) any { return &c.GRPC.ConnectTimeout },
	},
	{
		"grpc.tls_certificate", "path", anything,
		"PEM file with the certificate chain of the server. Empty: the certificate of tls.mode.",
		func(c *Config) any { return &c.GRPC.TLSCertificate },
	},
	{
		"grpc.tls_key", "path", anything,
		"PEM file with the private key of grpc.tls_certificate.",
		func(c *Config) any { return &c.GRPC.TLSKey },
	},
	{
		"grpc.tls_client_authorities", "path", anything,
		"PEM file with the CA certificates for client certificates (mutual TLS). Empty: clients need no " +
			"certificate.",
		func(c *Config) any { return &c.GRPC.TLSClientAuthorities },
	},
	{
		"grpc.keepalive_time", "duration", duration(time.Second, 720*time.Hour),
		"Idle time after which the server pings a client.",
		func(c *Config) any { return &c.GRPC.KeepaliveTime },
	},
	{
		"grpc.keepalive_timeout", "duration", duration(time.Millisecond, time.Hour),
		"Time limit for the reply to a ping; then the connection is closed.",
		func(c *Config) any { return &c.GRPC.KeepaliveTimeout },
	},
	{
		"grpc.keepalive_min_interval", "duration", duration(time.Millisecond, 720*time.Hour),
		"Minimum interval between pings of a client; clients that ping more often are disconnected.",
		func(c *Config) any { return &c.GRPC.KeepaliveMinInterval },
	},
	{
		"grpc.keepalive_permit_without_calls", "true or false", anything,
		"Whether clients may ping without calls in progress.",
		func(c *Config) any { return &c.GRPC.KeepalivePermitWithoutCalls },
	},
	{
		"grpc.max_connection_age", "duration", durationOrZero(time.Second, 8760*time.Hour),
		"Age at which a connection is closed gracefully, so that clients reconnect through a load balancer. " +
			"0: never.",
		func(c *Config) any { return &c.GRPC.MaxConnectionAge },
	},
	{
		"grpc.max_connection_age_grace", "duration", durationOrZero(time.Millisecond, 8760*time.Hour),
		"Time limit for calls in progress on such a connection. 0: none.",
		func(c *Config) any { return &c.GRPC.MaxConnectionAgeGrace },
	},

	{
		"grpc.reuse_port", "true or false", anything,
		"Whether other processes of the same user may listen on the port of grpc.address too.",
		func(c *Config) any { return &c.GRPC.ReusePort },
	},
	{
		"grpc.forward_headers", "regular expression",
		limit{
			"a regular expression as Go's package regexp reads it",
			isPattern,
		},
		"As http.forward_headers, for the metadata of gRPC calls.",
		func(c *Config) any { return &c.GRPC.ForwardHeaders },
	},
	{
		"grpc.restricted_api", "list of APIs:key=value",
		limit{restrictionWant, areRestrictions},
		"As http.restricted_api; the metadata's key is triton-grpc-protocol- and the key given here.",
		func(c *Config) any { return &c.GRPC.RestrictedAPI },
	},
	{
		"grpc.response_compression", "name", oneOf(CompressionNone, CompressionLow, CompressionMedium, CompressionHigh),
		"Compression level of inference responses for clients that accept gzip.",
		func(c *Config) any { return &c.GRPC.ResponseCompression },
	},

	{
		"upload.max_bytes", "bytes", size(KiB, 16*TiB),
		"Maximum size of an upload, all files of a version together.",
		func(c *Config) any { return &c.Upload.MaxBytes },
	},
	{
		"upload.max_files", "files", count(1, 1<<16),
		"Maximum files of one version.",
		func(c *Config) any { return &c.Upload.MaxFiles },
	},
	{
		"upload.concurrent", "uploads", count(1, 64),
		"Maximum concurrent uploads; they share the disk with loading models.",
		func(c *Config) any { return &c.Upload.Concurrent },
	},

	{
		"store.reserve_bytes", "bytes", size(0, 16*TiB),
		"Disk reserve: space that uploads leave free on the disk of data_dir, for logs and the catalog.",
		func(c *Config) any { return &c.Store.ReserveBytes },
	},
	{
		"store.snapshot_every", "duration", durationOrZero(time.Minute, 720*time.Hour),
		"Interval of snapshots of the catalog. 0 disables them.",
		func(c *Config) any { return &c.Store.SnapshotEvery },
	},
	{
		"store.snapshots", "snapshots", count(1, 1000),
		"Snapshots of the catalog that are kept.",
		func(c *Config) any { return &c.Store.Snapshots },
	},

	{
		"repository.folders", "list of paths",
		limit{"at most 64 paths", atMost(64)},
		"Folders in Triton's repository layout. Their models are imported into the store and served under the " +
			"folders' version numbers. One model's folder, or a folder with the files of one version alone, may " +
			"be given too.",
		func(c *Config) any { return &c.Repository.Folders },
	},
	{
		"repository.control_mode", "name", oneOf(ControlNone, ControlPoll, ControlExplicit),
		"When models of repository.folders are loaded. none: all at the start. poll: also when their folders " +
			"change. explicit: those in load_models at the start, and those that clients load.",
		func(c *Config) any { return &c.Repository.ControlMode },
	},
	{
		"repository.load_models", "list of names",
		limit{"at most 10000 names", atMost(10_000)},
		"Models that are loaded at the start with control_mode explicit; \"*\" alone for all.",
		func(c *Config) any { return &c.Repository.LoadModels },
	},
	{
		"repository.poll_interval", "duration", duration(100*time.Millisecond, 24*time.Hour),
		"Polling interval of the folders with control_mode poll.",
		func(c *Config) any { return &c.Repository.PollInterval },
	},
	{
		"repository.config_name", "name", anything,
		"Models that have a file configs/NAME.pbtxt are configured by it, in place of their config.pbtxt.",
		func(c *Config) any { return &c.Repository.ConfigName },
	},
	{
		"repository.load_retries", "loads", count(0, 1000),
		"Retries of a model of repository.folders that failed to load.",
		func(c *Config) any { return &c.Repository.LoadRetries },
	},
	{
		"repository.exit_on_error", "true or false", anything,
		"Whether the box stops when a model of repository.folders fails to load at the start.",
		func(c *Config) any { return &c.Repository.ExitOnError },
	},

	{
		"onnx.library", "path", anything,
		"The file libonnxruntime.so. Empty: it is searched beside the program and in the system's library " +
			"folders.",
		func(c *Config) any { return &c.ONNX.Library },
	},
	{
		"onnx.threads", "threads", count(0, 1024),
		"Threads for all runs of all models together. Also the count of an instance group without one. 0: the " +
			"number of cores.",
		func(c *Config) any { return &c.ONNX.Threads },
	},

	{
		"gpu.mode", "name", oneOf(GPUAuto, GPUOff),
		"auto: models run on GPUs, if there are any and their configuration allows it. off: GPUs are not " +
			"used.",
		func(c *Config) any { return &c.GPU.Mode },
	},
	{
		"gpu.driver", "path", anything,
		"The file libcuda.so.1. Empty: it is searched in the system's library folders and where Jetsons and " +
			"containers keep it.",
		func(c *Config) any { return &c.GPU.Driver },
	},
	{
		"gpu.telemetry", "path", anything,
		"The file libnvidia-ml.so.1, the source of load, memory and temperature of GPUs. Empty: it is " +
			"searched as gpu.driver.",
		func(c *Config) any { return &c.GPU.Telemetry },
	},
	{
		"gpu.telemetry_every", "duration", duration(100*time.Millisecond, time.Hour),
		"Interval at which load, memory and temperature of GPUs are read.",
		func(c *Config) any { return &c.GPU.TelemetryEvery },
	},
	{
		"gpu.libraries", "list of folders",
		limit{"at most 64 absolute paths", areFolders},
		"Folders in which NVIDIA's libraries (libcudart, libcublas, libcudnn and others) are searched first. " +
			"Files that users other than root and the box's own can write are not used.",
		func(c *Config) any { return &c.GPU.Libraries },
	},
	{
		"gpu.devices", "list of numbers or UUIDs",
		limit{
			"at most 64 numbers, in the order of the PCI bus, or UUIDs",
			areDevices,
		},
		"The GPUs that the box may use. Empty: all of them.",
		func(c *Config) any { return &c.GPU.Devices },
	},
	{
		"gpu.max_memory_bytes", "bytes", size(0, 16*TiB),
		"Maximum memory of all models on each GPU. 0: nine tenths of the GPU's memory, less 512 MiB.",
		func(c *Config) any { return &c.GPU.MaxMemoryBytes },
	},

	{
		"wasm.max_memory_bytes", "bytes", size(MiB, GiB),
		"Maximum memory of one guest of a WebAssembly step. A model's max_memory_mebibyte can lower it.",
		func(c *Config) any { return &c.Wasm.MaxMemoryBytes },
	},
	{
		"wasm.run_timeout", "duration", duration(time.Millisecond, 24*time.Hour),
		"Time limit of a step for one request, unless the request ends earlier. Models have priority over " +
			"steps that run for long (docs/steps-abi.md, \"Models go first\").",
		func(c *Config) any { return &c.Wasm.RunTimeout },
	},
	{
		"wasm.cache_bytes", "bytes", size(MiB, TiB),
		"Maximum size of the cache of compiled steps in data_dir; the oldest are removed and compiled again " +
			"when they are loaded.",
		func(c *Config) any { return &c.Wasm.CacheBytes },
	},

	{
		"engine.max_queue", "requests", count(1, 1<<20),
		"Maximum queued requests of one model; further requests are answered with busy. A model's " +
			"max_queue_size can lower it.",
		func(c *Config) any { return &c.Engine.MaxQueue },
	},
	{
		"engine.test_queued", "requests", count(0, 1<<20),
		"For tests of batching only: a model that batches runs nothing until this many requests are queued. " +
			"Also TRITONSERVER_DELAY_SCHEDULER. 0: disabled.",
		func(c *Config) any { return &c.Engine.TestQueued },
	},
	{
		"engine.test_backlog", "requests", count(0, 1<<20),
		"With engine.test_queued, for sequence batchers with the strategy direct: until this many requests of " +
			"sequences without a slot are queued, too. Also TRITONSERVER_BACKLOG_DELAY_SCHEDULER.",
		func(c *Config) any { return &c.Engine.TestBacklog },
	},
	{
		"engine.request_timeout", "duration", durationOrZero(time.Millisecond, 24*time.Hour),
		"Time limit of a request, queue time included. 0: only the client's own deadline.",
		func(c *Config) any { return &c.Engine.RequestTimeout },
	},
	{
		"engine.load_timeout", "duration", duration(time.Second, 24*time.Hour),
		"Time limit of the load of a version, warm-up included.",
		func(c *Config) any { return &c.Engine.LoadTimeout },
	},
	{
		"engine.load_concurrency", "loads", count(1, 64),
		"Maximum concurrent loads; each uses cores and memory beside the models that serve.",
		func(c *Config) any { return &c.Engine.LoadConcurrency },
	},
	{
		"engine.default_max_batch_size", "elements", count(0, 1<<16),
		"max_batch_size of models that can batch and declare none. 0: they are not batched.",
		func(c *Config) any { return &c.Engine.DefaultMaxBatchSize },
	},
	{
		"engine.auto_complete", "true or false", anything,
		"Whether missing parts of a configuration are completed from the model file. Without it a " +
			"configuration must name the inputs and outputs, with dims above 0 or -1.",
		func(c *Config) any { return &c.Engine.AutoComplete },
	},
	{
		"engine.strict_readiness", "true or false", anything,
		"Whether the server is ready only while every wanted model is ready.",
		func(c *Config) any { return &c.Engine.StrictReadiness },
	},
	{
		"engine.pin_cores", "true or false", anything,
		"Whether runs of 1 ms and more on one thread are each kept on a core that no other such run has. More " +
			"throughput with few clients, above all beside other programs of lower priority; runs of other " +
			"programs on that core are waited for.",
		func(c *Config) any { return &c.Engine.PinCores },
	},
	{
		"engine.isolation", "name", oneOf(IsolationProcess, IsolationModel, IsolationNone),
		"Where native code runs. process: each version in a child process of its own, so that a crash or a " +
			"leak affects that model only. none: in the server's process, some microseconds faster, except for " +
			"models with the parameter isolation process or group:NAME. model: as that parameter says: process, " +
			"none, or group:NAME, which puts all models of that name into one child process; process where it is " +
			"not set.",
		func(c *Config) any { return &c.Engine.Isolation },
	},
	{
		"engine.max_memory_bytes", "bytes", size(0, 16*TiB),
		"Maximum memory of all loaded models. A version is estimated at 3 times the bytes of its weights, or " +
			"its parameter memory_bytes; one that does not fit is not loaded. 0: no limit.",
		func(c *Config) any { return &c.Engine.MaxMemoryBytes },
	},
	{
		"engine.swap_without_room", "name", oneOf(SwapRefuse, SwapGap),
		"The policy when a new live version does not fit into memory beside the old one. refuse: the old one " +
			"stays. gap: the old one is unloaded first, and the model is unavailable until the new one is ready. " +
			"A model's parameter swap_without_room overrides it.",
		func(c *Config) any { return &c.Engine.SwapWithoutRoom },
	},
	{
		"engine.load_cpu_time", "duration", duration(time.Second, 24*time.Hour),
		"CPU time limit of the child process of a version for its load, all threads together.",
		func(c *Config) any { return &c.Engine.LoadCPUTime },
	},
	{
		"engine.max_address_space", "bytes", size(0, 16*TiB),
		"Address space of a child process, which limits its memory; a small model needs about 3 GiB of it. 0: " +
			"no limit.",
		func(c *Config) any { return &c.Engine.MaxAddressSpace },
	},
	{
		"engine.response_cache_bytes", "bytes", size(0, 16*TiB),
		"Maximum memory of the response cache of models that set response_cache; the least recently used " +
			"entries are evicted. 0: no cache, and such models are refused.",
		func(c *Config) any { return &c.Engine.ResponseCacheBytes },
	},
	{
		"engine.rate_limit", "name", oneOf(RateLimitOff, RateLimitExecutionCount),
		"Triton's rate limiter. execution_count: an instance runs only while all resources that it needs are " +
			"available; the instance with the fewest runs, times its priority, goes first. off: rate_limiter has " +
			"no effect.",
		func(c *Config) any { return &c.Engine.RateLimit },
	},
	{
		"engine.rate_limit_resources", "list of resources",
		limit{
			"at most 64 resources as name:count, each name once",
			areResources,
		},
		"Counts of resources. Unlisted resources have the largest count that an instance needs.",
		func(c *Config) any { return &c.Engine.RateLimitResources },
	},
	{
		"engine.sequence_state_bytes", "bytes", size(KiB, TiB),
		"Maximum memory of the implicit states of all sequences. A request whose state does not fit fails, " +
			"and its sequence is unchanged.",
		func(c *Config) any { return &c.Engine.SequenceStateBytes },
	},
	{
		"engine.sequence_drain", "duration", durationOrZero(time.Millisecond, 24*time.Hour),
		"Time for which a replaced or unloaded version keeps serving its sequences; then they must restart. " +
			"At shutdown it is at most half of shutdown.timeout. 0: what has been taken is answered and no more.",
		func(c *Config) any { return &c.Engine.SequenceDrain },
	},

	{
		"shared_memory.enabled", "true or false", anything,
		"Whether clients on the same machine may register POSIX shared memory and name it in requests instead " +
			"of sending tensors. The box needs the right to open their objects in /dev/shm.",
		func(c *Config) any { return &c.SharedMemory.Enabled },
	},

	{
		"shutdown.timeout", "duration", durationOrZero(time.Millisecond, time.Hour),
		"Time limit for requests in flight at shutdown.",
		func(c *Config) any { return &c.Shutdown.Timeout },
	},

	{
		"log.level", "name", oneOf("debug", "info", "warn", "error"),
		"The minimum level of log lines.",
		func(c *Config) any { return &c.Log.Level },
	},
	{
		"log.format", "name", oneOf(LogText, LogJSON, LogTriton, LogTritonISO8601),
		"The format of log lines. triton and triton-iso8601: as Triton's formats default and ISO8601.",
		func(c *Config) any { return &c.Log.Format },
	},
	{
		"log.file", "path", anything,
		"File that log lines are appended to. Empty: standard error.",
		func(c *Config) any { return &c.Log.File },
	},
	{
		"log.info", "true or false", anything,
		"Whether lines of level info are logged, where log.level lets them through.",
		func(c *Config) any { return &c.Log.Info },
	},
	{
		"log.warning", "true or false", anything,
		"Whether warnings are logged, where log.level lets them through.",
		func(c *Config) any { return &c.Log.Warning },
	},
	{
		"log.error", "true or false", anything,
		"Whether errors are logged.",
		func(c *Config) any { return &c.Log.Error },
	},
	{
		"log.verbose", "number", count(0, math.MaxInt32),
		"Above 0, details are logged as with the level debug.",
		func(c *Config) any { return &c.Log.Verbose },
	},

	{
		"metrics.enabled", "true or false", anything,
		"Whether /metrics answers.",
		func(c *Config) any { return &c.Metrics.Enabled },
	},
	{
		"metrics.public", "true or false", anything,
		"Whether /metrics answers without a key, until the setting is changed in the page.",
		func(c *Config) any { return &c.Metrics.Public },
	},
	{
		"metrics.address", "host:port",
		limit{
			"a host (empty: every address) and a port from 0 to 65535, or nothing at all: only the REST server has the page",
			isAddressOrEmpty,
		},
		"Where the metrics listen on their own port, beside /metrics of the REST server.",
		func(c *Config) any { return &c.Metrics.Address },
	},
	{
		"metrics.cpu", "true or false", anything,
		"Whether the CPU and memory utilization of the machine is in the metrics.",
		func(c *Config) any { return &c.Metrics.CPU },
	},
	{
		"metrics.counter_latencies", "true or false", anything,
		"Whether Triton's cumulative times are in the metrics.",
		func(c *Config) any { return &c.Metrics.CounterLatencies },
	},
	{
		"metrics.histogram_latencies", "true or false", anything,
		"Whether nv_inference_first_response_histogram_ms is in the metrics. The finer " +
			"edgewise_request_seconds always is.",
		func(c *Config) any { return &c.Metrics.HistogramLatencies },
	},
	{
		"metrics.summary_latencies", "true or false", anything,
		"Whether the summaries of times are in the metrics.",
		func(c *Config) any { return &c.Metrics.SummaryLatencies },
	},
	{
		"metrics.summary_quantiles", "list of quantile:error",
		limit{
			"up to 16 pairs of numbers above 0 and below 1",
			areQuantiles,
		},
		"The quantiles of the summaries, each with its allowed error.",
		func(c *Config) any { return &c.Metrics.SummaryQuantiles },
	},

	{
		"trace.levels", "list of names",
		limit{"OFF alone, or of TIMESTAMPS and TENSORS", areTraceLevels},
		"What traces contain.",
		func(c *Config) any { return &c.Trace.Levels },
	},
	{
		"trace.rate", "requests", count(0, math.MaxInt32),
		"One in this many requests is traced. 0: only requests with a W3C trace context, with mode " +
			"opentelemetry.",
		func(c *Config) any { return &c.Trace.Rate },
	},
	{
		"trace.count", "requests", count(-1, math.MaxInt32),
		"The number of requests to trace. -1: no limit.",
		func(c *Config) any { return &c.Trace.Count },
	},
	{
		"trace.mode", "name", oneOf(TraceTriton, TraceOpenTelemetry),
		"The exporter. triton: to trace.file, in Triton's format. opentelemetry: to trace.url.",
		func(c *Config) any { return &c.Trace.Mode },
	},
	{
		"trace.file", "path", anything,
		"File of traces with mode triton. Empty: none.",
		func(c *Config) any { return &c.Trace.File },
	},
	{
		"trace.log_frequency", "traces", count(0, math.MaxInt32),
		"Traces in one file: the first ones go to trace.file.0, the next to trace.file.1. 0: all go to " +
			"trace.file.",
		func(c *Config) any { return &c.Trace.LogFrequency },
	},
	{
		"trace.url", "URL",
		limit{"an http or https URL", isURL},
		"URL of an OpenTelemetry collector (OTLP over HTTP).",
		func(c *Config) any { return &c.Trace.URL },
	},
	{
		"trace.resource", "list of name=value",
		limit{"at most 64 pairs", arePairs},
		"Resource attributes of traces, beside service.name.",
		func(c *Config) any { return &c.Trace.Resource },
	},
	{
		"trace.queue_size", "spans", count(1, 1<<20),
		"Maximum queued spans; further ones are dropped.",
		func(c *Config) any { return &c.Trace.QueueSize },
	},
	{
		"trace.export_delay", "duration", duration(time.Millisecond, time.Hour),
		"Maximum delay of the export of a span.",
		func(c *Config) any { return &c.Trace.ExportDelay },
	},
	{
		"trace.export_batch", "spans", count(1, 1<<16),
		"Maximum spans in one export.",
		func(c *Config) any { return &c.Trace.ExportBatch },
	},
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
	return limit{
		"one of " + strings.Join(names, ", "),
		func(field any) bool { return slices.Contains(names, *field.(*string)) },
	}
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

var hostName = regexp.MustCompile(
	`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)

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
