// Package config reads the configuration of the appliance. It is the only package that looks at the configuration file,
// at EDGEWISE_ variables and at flags that stand for keys.
//
// A key is taken from the first of these that sets it: flags, environment, file, defaults. Nothing is looked up twice:
// Load is called once, and a Config is not changed afterwards.
package config

import "time"

// Config is the configuration of the appliance. Its fields, and those of its sections, declare the keys, in the order
// of the configuration file. All else that is known of a key is derived from its field: the name from the tag json, the
// default from the tag default (none: the zero value), the unit from the tag unit, the limits from the tag limit (see
// limitOf), and the description in the configuration file and on the page from the comment.
type Config struct {
	// Folder of the catalog and of the model files. A relative path starts at the working directory; the systemd unit
	// sets it to /var/lib/edgewise.
	DataDir string `json:"data_dir" default:"data" limit:"folder"`
	// Authentication. accounts: users log in, devices have API keys, and only the health routes are public. open: every
	// client has all rights, for a closed network or a test.
	Auth string `json:"auth" default:"accounts" limit:"one of accounts, open"`
	// Whether the first start makes an API key for the demo and prints it once: it may run and read every model.
	DemoKey bool `json:"demo_key"`
	// Whether the box starts without its models after starts that did not end well, so that somebody can reach it and unload the one
	// that causes it. Not where an orchestrator starts it again with growing pauses, and models come from a repository.
	SafeStart    bool         `json:"safe_start" default:"true"`
	Server       Server       `json:"server"`
	HTTP         HTTP         `json:"http"`
	TLS          TLS          `json:"tls"`
	GRPC         GRPC         `json:"grpc"`
	Upload       Upload       `json:"upload"`
	Store        Store        `json:"store"`
	Repository   Repository   `json:"repository"`
	ONNX         ONNX         `json:"onnx"`
	GPU          GPU          `json:"gpu"`
	Wasm         Wasm         `json:"wasm"`
	Engine       Engine       `json:"engine"`
	SharedMemory SharedMemory `json:"shared_memory"`
	Shutdown     Shutdown     `json:"shutdown"`
	Log          Log          `json:"log"`
	Metrics      Metrics      `json:"metrics"`
	Trace        Trace        `json:"trace"`
	Registry     Registry     `json:"registry"`
	Fleet        Fleet        `json:"fleet"`
	Alerts       Alerts       `json:"alerts"`

	// Environment has the variables that the clients of object stores and registries read. It is no key.
	Environment []string `json:"-"`
}

// The values of auth.
const (
	AuthAccounts = "accounts"
	AuthOpen     = "open"
)

// Server is what the box says of itself.
type Server struct {
	// Name of the server in its metadata. Programs written for Triton compare it.
	ID string `json:"id" default:"triton" limit:"name"`
}

// HTTP bounds the REST server.
type HTTP struct {
	// Where the page and the REST server listen. Loopback; :8000 lets the network in.
	Address string `json:"address" default:"127.0.0.1:8000" limit:"address"`
	// Whether other processes of the same user may listen on the port of http.address too.
	ReusePort bool `json:"reuse_port"`
	// Request headers whose names match become parameters of the request, which steps read. The match may be partial
	// and ignores case, unless the expression begins with (?-i). Empty: none.
	ForwardHeaders string `json:"forward_headers" limit:"expression"`
	// Parts of the inference protocol that only requests with the given header and value may use. The APIs of one
	// group are separated by ';'.
	RestrictedAPI []string `json:"restricted_api" unit:"list of APIs:header=value" limit:"restrictions" secret:"true"`
	// Maximum size of the JSON part of a request, of a body that is one raw tensor, and of a body after decompression.
	// JSON numbers take several times the memory of the tensor they describe.
	MaxJSONBytes Size `json:"max_json_bytes" default:"64MiB" limit:"1KiB to 2GiB"`
	// Maximum body of an inference request, including binary tensors.
	MaxBodyBytes Size `json:"max_body_bytes" default:"256MiB" limit:"1KiB to 16GiB"`
	// Maximum memory of all request bodies together; above it requests are answered with busy.
	MaxInflightBytes Size `json:"max_inflight_bytes" default:"1GiB" limit:"1KiB to 1TiB"`
	// Maximum open connections; each needs a file descriptor and some memory.
	MaxConnections int `json:"max_connections" default:"1024" unit:"connections" limit:"1 to 65536"`
	// Time limit for the complete header of a request, against slow clients.
	HeaderTimeout time.Duration `json:"header_timeout" default:"10s" limit:"1ms to 1h"`
	// Time limit between bytes of a body. Slow uploads continue as long as bytes arrive.
	BodyTimeout time.Duration `json:"body_timeout" default:"1m" limit:"1ms to 24h"`
	// How long a connection without a request is kept.
	IdleTimeout time.Duration `json:"idle_timeout" default:"2m" limit:"1ms to 24h"`
	// Time limit between bytes of a response that the client reads.
	WriteTimeout time.Duration `json:"write_timeout" default:"1m" limit:"1ms to 24h"`
	// With auth open: host names that clients may use, beside localhost, the host name and the addresses. Other Host
	// headers are refused then, against DNS rebinding; with accounts and with Triton's flags every name is answered.
	// The self-signed certificate includes these names.
	AllowedHosts []string `json:"allowed_hosts" limit:"hosts"`
	// Origins whose web pages may call the box with an API key, or without where none is needed. Sessions of users are
	// limited to the box's own page. A key can have origins of its own.
	CORSOrigins []string `json:"cors_origins" limit:"origins"`
	// Addresses and networks of proxies whose X-Forwarded-For names the client, for REST and gRPC: it is what counts for
	// logins, for the local token and in the audit log. Anybody else's is ignored.
	TrustedProxies []string `json:"trusted_proxies" limit:"networks"`
}

// TLS says who must speak TLS.
type TLS struct {
	// Whether TLS is required, for REST and gRPC. auto: except for clients on the box itself. require: for all clients.
	// off: TLS is disabled; passwords and keys are sent in plain text.
	Mode string `json:"mode" default:"auto" limit:"one of auto, require, off"`
}

// The values of tls.mode.
const (
	TLSAuto    = "auto"
	TLSRequire = "require"
	TLSOff     = "off"
)

// GRPC bounds the gRPC server.
type GRPC struct {
	// Where the gRPC server listens. Loopback, as http.address.
	Address string `json:"address" default:"127.0.0.1:8001" limit:"address"`
	// Maximum message of a client, before and after decompression. Clients that send more get RESOURCE_EXHAUSTED. The
	// protocol itself allows no more than 2147483647.
	MaxMessageBytes Size `json:"max_message_bytes" default:"256MiB" limit:"1KiB to 2147483647"`
	// Maximum memory of all gRPC inference requests together; above it they are answered with busy.
	MaxInflightBytes Size `json:"max_inflight_bytes" default:"1GiB" limit:"1KiB to 1TiB"`
	// Maximum open connections; further ones are closed.
	MaxConnections int `json:"max_connections" default:"1024" unit:"connections" limit:"1 to 65536"`
	// Maximum calls in progress on one connection; clients queue further ones.
	MaxStreams int `json:"max_streams" default:"1024" unit:"calls" limit:"1 to 65536"`
	// Time limit for the handshake of a new connection, including TLS.
	ConnectTimeout time.Duration `json:"connect_timeout" default:"10s" limit:"1ms to 1h"`
	// PEM file with the certificate chain of the server. Empty: the certificate of tls.mode.
	TLSCertificate string `json:"tls_certificate" limit:"file"`
	// PEM file with the private key of grpc.tls_certificate.
	TLSKey string `json:"tls_key" limit:"file"`
	// PEM file with the CA certificates for client certificates (mutual TLS). Empty: clients need no certificate.
	TLSClientAuthorities string `json:"tls_client_authorities" limit:"file"`
	// Idle time after which the server pings a client.
	KeepaliveTime time.Duration `json:"keepalive_time" default:"2h" limit:"1s to 720h"`
	// Time limit for the reply to a ping; then the connection is closed.
	KeepaliveTimeout time.Duration `json:"keepalive_timeout" default:"20s" limit:"1ms to 1h"`
	// Minimum interval between pings of a client; clients that ping more often are disconnected.
	KeepaliveMinInterval time.Duration `json:"keepalive_min_interval" default:"5m" limit:"1ms to 720h"`
	// Whether clients may ping without calls in progress.
	KeepalivePermitWithoutCalls bool `json:"keepalive_permit_without_calls"`
	// Age at which a connection is closed gracefully, so that clients reconnect through a load balancer. 0: never.
	MaxConnectionAge time.Duration `json:"max_connection_age" limit:"0, or 1s to 8760h"`
	// Time limit for calls in progress on such a connection. 0: none.
	MaxConnectionAgeGrace time.Duration `json:"max_connection_age_grace" limit:"0, or 1ms to 8760h"`
	// Whether other processes of the same user may listen on the port of grpc.address too.
	ReusePort bool `json:"reuse_port"`
	// As http.forward_headers, for the metadata of gRPC calls.
	ForwardHeaders string `json:"forward_headers" limit:"expression"`
	// As http.restricted_api; the metadata's key is triton-grpc-protocol- and the key given here.
	RestrictedAPI []string `json:"restricted_api" unit:"list of APIs:key=value" limit:"restrictions" secret:"true"`
	// Compression level of inference responses for clients that accept gzip.
	ResponseCompression string `json:"response_compression" default:"none" limit:"one of none, low, medium, high"`
}

// The values of grpc.response_compression.
const (
	CompressionNone   = "none"
	CompressionLow    = "low"
	CompressionMedium = "medium"
	CompressionHigh   = "high"
)

// Upload bounds the uploads of models.
type Upload struct {
	// Maximum size of an upload, all files of a version together.
	MaxBytes Size `json:"max_bytes" default:"32GiB" limit:"1KiB to 16TiB"`
	// Maximum files of one version.
	MaxFiles int `json:"max_files" default:"1024" unit:"files" limit:"1 to 65536"`
	// Maximum concurrent uploads; they share the disk with loading models.
	Concurrent int `json:"concurrent" default:"2" unit:"uploads" limit:"1 to 64"`
}

// Store configures the store of models.
type Store struct {
	// Disk reserve: space that uploads leave free on the disk of data_dir, for logs and the catalog.
	ReserveBytes Size `json:"reserve_bytes" default:"1GiB" limit:"0 to 16TiB"`
	// Interval of snapshots of the catalog. 0 disables them.
	SnapshotEvery time.Duration `json:"snapshot_every" default:"1h" limit:"0, or 1m to 720h"`
	// Snapshots of the catalog that are kept.
	Snapshots int `json:"snapshots" default:"24" unit:"snapshots" limit:"1 to 1000"`
}

// Registry says what the box believes of OCI registries.
type Registry struct {
	// Folder with public keys of minisign, NAME.pub. Versions from registries that one of them has signed are trusted.
	TrustedKeys string `json:"trusted_keys" limit:"file"`
	// Versions from registries that none of registry.trusted_keys has signed are refused.
	RequireSignature bool `json:"require_signature" default:"false"`
}

// Fleet says which signed document the box follows.
type Fleet struct {
	// Where the document of the fleet is: oci://registry/name:tag, a folder of an object store (s3://, gs://, as://) or of a web
	// server (https://), or a folder of this machine, such as that of a stick. Empty: the box follows none.
	Source string `json:"source" limit:"place"`
	// Folder with public keys of minisign, NAME.pub. Only documents that one of them has signed are believed.
	TrustedKeys string `json:"trusted_keys" limit:"file"`
	// Interval at which the document is asked for; each pause is up to a quarter shorter or longer.
	Interval time.Duration `json:"interval" default:"5m" limit:"1s to 24h"`
	// Name of the box in the fleet, which no other box has. Empty: the name of the box.
	Box string `json:"box" limit:"box"`
	// Labels of the box, by which groups of the fleet choose.
	Labels []string `json:"labels" limit:"pairs"`
}

// Repository says which folders in Triton's repository layout feed the store, and when.
type Repository struct {
	// Folders in Triton's repository layout. Their models are imported into the store and served under the folders'
	// version numbers. One model's folder, or a folder with the files of one version alone, may be given too. So may such
	// a tree in an object store, as s3://bucket/path, gs://bucket/path or as://account/container/path.
	Folders []string `json:"folders" limit:"places"`
	// File with the credentials of object stores, in Triton's form: by the beginning of a URL, of which the longest
	// counts. Empty: what the environment says, as the stores' own programs read it. Also TRITON_CLOUD_CREDENTIAL_PATH.
	CredentialsFile string `json:"credentials_file" limit:"file"`
	// Name of the model where the folder of one, or of one version's files, stands in repository.folders and its
	// configuration has no name. Empty: the folder's name.
	Name string `json:"name" unit:"name"`
	// When models of repository.folders are loaded. none: all at the start. poll: also when their folders change.
	// explicit: those in load_models at the start, and those that clients load.
	ControlMode string `json:"control_mode" default:"none" limit:"one of none, poll, explicit"`
	// Models that are loaded at the start with control_mode explicit; "*" alone for all.
	LoadModels []string `json:"load_models" limit:"names"`
	// Polling interval of the folders, and of object stores, with control_mode poll.
	PollInterval time.Duration `json:"poll_interval" default:"15s" limit:"100ms to 24h"`
	// Models that have a file configs/NAME.pbtxt are configured by it, in place of their config.pbtxt.
	ConfigName string `json:"config_name" unit:"name"`
	// Retries of a model of repository.folders that failed to load.
	LoadRetries int `json:"load_retries" unit:"loads" limit:"0 to 1000"`
	// Whether the box stops when a model of repository.folders fails to load at the start.
	ExitOnError bool `json:"exit_on_error" default:"true"`
}

// The values of repository.control_mode.
const (
	ControlNone     = "none"
	ControlPoll     = "poll"
	ControlExplicit = "explicit"
)

// ONNX configures the backend of ONNX models.
type ONNX struct {
	// The file libonnxruntime.so. Empty: it is searched beside the program and in the system's library folders.
	Library string `json:"library" limit:"library"`
	// Threads for all runs of all models together. Also the count of instance groups that declare none. 0: the number
	// of cores.
	Threads int `json:"threads" unit:"threads" limit:"0 to 1024"`
	// Maximum memory that runs on the CPU take for tensors in each process that runs models; a run that needs more fails.
	// Weights do not count. 0: three quarters of the memory of the machine, or of the container or service. Models with the
	// parameter enable_mem_arena 0 have no limit.
	MaxMemoryBytes Size `json:"max_memory_bytes" limit:"0 to 16TiB"`
}

// GPU configures the use of GPUs.
type GPU struct {
	// auto: models run on GPUs, if there are any and their configuration allows it. off: GPUs are not used.
	Mode string `json:"mode" default:"auto" limit:"one of auto, off"`
	// The file libcuda.so.1. Empty: it is searched in the system's library folders and where Jetsons and containers
	// keep it.
	Driver string `json:"driver" limit:"library"`
	// The file libnvidia-ml.so.1, the source of load, memory and temperature of GPUs. Empty: it is searched like
	// gpu.driver.
	Telemetry string `json:"telemetry" limit:"library"`
	// Interval at which load, memory and temperature of GPUs are read.
	TelemetryEvery time.Duration `json:"telemetry_every" default:"2s" limit:"100ms to 1h"`
	// Folders in which NVIDIA's libraries (libcudart, libcublas, libcudnn and others) are searched first. Files that
	// users other than root and the box's own can write are not used.
	Libraries []string `json:"libraries" limit:"folders"`
	// The GPUs that the box may use. Empty: all of them.
	Devices []string `json:"devices" limit:"devices"`
	// The file libvulkan.so.1, by which GPUs that are not NVIDIA's are used. Empty: it is searched in the system's library
	// folders.
	Vulkan string `json:"vulkan" limit:"library"`
	// Manifests of Vulkan drivers (files such as radeon_icd.x86_64.json). Empty: those in /etc/vulkan/icd.d,
	// /usr/local/share/vulkan/icd.d and /usr/share/vulkan/icd.d.
	VulkanDrivers []string `json:"vulkan_drivers" limit:"files"`
	// true: Vulkan devices that compute on the processor (lavapipe, SwiftShader) are used, too. For tests: they are slower
	// than the CPU itself.
	Software bool `json:"software"`
	// Maximum size of the shaders that Vulkan drivers keep in data_dir, a quarter of it for one model; those of models that
	// were loaded longest ago are removed and compiled again.
	ShaderCacheBytes Size `json:"shader_cache_bytes" default:"256MiB" limit:"1MiB to 1TiB"`
	// The same for TensorRT's engines and what NVIDIA's driver compiles. An engine that is larger than a quarter of it is
	// built at each load.
	EngineCacheBytes Size `json:"engine_cache_bytes" default:"2GiB" limit:"1MiB to 1TiB"`
	// Maximum memory of all models on each GPU. 0: nine tenths of the GPU's memory, less 512 MiB.
	MaxMemoryBytes Size `json:"max_memory_bytes" limit:"0 to 16TiB"`
	// How long a model that leaves the kind of device open is tried on each device but the CPU, at its first load on this
	// hardware and with the load; the fastest device that answers as the CPU does serves. 0: none is tried, and such a
	// model runs on every usable GPU.
	TrialTime time.Duration `json:"trial_time" default:"20s" limit:"0s to 10m"`
}

// The values of gpu.mode.
const (
	GPUAuto = "auto"
	GPUOff  = "off"
)

// Wasm bounds the memory and time of WebAssembly steps.
type Wasm struct {
	// Maximum memory of one guest of a WebAssembly step. A model's max_memory_mebibyte can lower it.
	MaxMemoryBytes Size `json:"max_memory_bytes" default:"64MiB" limit:"1MiB to 1GiB"`
	// Time limit of a step for one request, unless the request ends earlier. Models have priority over steps that run
	// for long (docs/steps-abi.md, "Models go first").
	RunTimeout time.Duration `json:"run_timeout" default:"1m" limit:"1ms to 24h"`
	// Maximum size of the cache of compiled steps in data_dir; the oldest are removed and compiled again when they are
	// loaded.
	CacheBytes Size `json:"cache_bytes" default:"256MiB" limit:"1MiB to 1TiB"`
}

// Engine bounds loading and running.
type Engine struct {
	// Maximum queued requests of one model; further requests are answered with busy. A model's max_queue_size can lower
	// it.
	MaxQueue int `json:"max_queue" default:"1024" unit:"requests" limit:"1 to 1048576"`
	// For tests of batching only: a model that batches runs nothing until this many requests are queued. Also
	// TRITONSERVER_DELAY_SCHEDULER. 0: disabled.
	TestQueued int `json:"test_queued" unit:"requests" limit:"0 to 1048576"`
	// With engine.test_queued, for sequence batchers with the strategy direct: until this many requests of sequences
	// without a slot are queued, too. Also TRITONSERVER_BACKLOG_DELAY_SCHEDULER.
	TestBacklog int `json:"test_backlog" unit:"requests" limit:"0 to 1048576"`
	// Time limit of a request, queue time included. 0: only the client's own deadline. A request to a decoupled model has
	// it from one response to the next.
	RequestTimeout time.Duration `json:"request_timeout" default:"1m" limit:"0, or 1ms to 24h"`
	// Time limit of the load of a version, warm-up included.
	LoadTimeout time.Duration `json:"load_timeout" default:"5m" limit:"1s to 24h"`
	// Maximum concurrent loads, and, beside them, concurrent starts of models that gave their memory up; each uses cores
	// and memory beside the models that serve.
	LoadConcurrency int `json:"load_concurrency" default:"1" unit:"loads" limit:"1 to 64"`
	// max_batch_size of models that can batch and declare none. 0: they are not batched.
	DefaultMaxBatchSize int `json:"default_max_batch_size" default:"4" unit:"elements" limit:"0 to 65536"`
	// Whether missing parts of a configuration are completed from the model file. Without it a configuration must name
	// the inputs and outputs, with dims above 0 or -1.
	AutoComplete bool `json:"auto_complete" default:"true"`
	// Whether the server is ready only while every wanted model is ready.
	StrictReadiness bool `json:"strict_readiness" default:"true"`
	// Whether each run of 1 ms or more on one thread is pinned to a core that no other such run has. It raises the
	// throughput of few clients, most of all beside programs of lower priority. A pinned run waits while another program
	// uses its core.
	PinCores bool `json:"pin_cores" default:"true"`
	// Where native code runs. process: each version in a child process of its own, so that a crash or a leak affects
	// that model only. none: in the server's process, some microseconds faster, except for models with the parameter
	// isolation process or group:NAME. model: as that parameter says: process, none, or group:NAME, which puts all
	// models of that name into one child process; process where it is not set.
	Isolation string `json:"isolation" default:"process" limit:"one of process, model, none"`
	// Folders of backends: each folder in them with a backend.yaml is one, and serves models of its platforms in processes
	// of its program. Those that come with the program, in lib/backends beside it, need no entry.
	Backends []string `json:"backends" limit:"paths"`
	// Maximum memory of all loaded models. Where a version needs more than is left, those that are asked for least give
	// theirs up, and come back with their next request; see the model's parameters residency and memory_bytes. One that
	// does not fit even so is not loaded. 0: three quarters of the memory of the machine, or of its container or service.
	MaxMemoryBytes Size `json:"max_memory_bytes" limit:"0 to 16TiB"`
	// The policy when a new live version does not fit into memory beside the old one. refuse: the old one stays. gap:
	// the old one is unloaded first, and the model is unavailable until the new one is ready. A model's parameter
	// swap_without_room overrides it.
	SwapWithoutRoom string `json:"swap_without_room" default:"refuse" limit:"one of refuse, gap"`
	// CPU time limit of the child process of a version for its load, all threads together.
	LoadCPUTime time.Duration `json:"load_cpu_time" default:"5m" limit:"1s to 24h"`
	// Address space of a child process, which limits its memory; a small model needs about 3 GiB of it. 0: no limit.
	MaxAddressSpace Size `json:"max_address_space" limit:"0 to 16TiB"`
	// Maximum memory of the response cache of models that set response_cache; the least recently used entries are
	// evicted. 0: no cache, and such models are refused.
	ResponseCacheBytes Size `json:"response_cache_bytes" default:"64MiB" limit:"0 to 16TiB"`
	// Triton's rate limiter. execution_count: an instance runs only while all resources that it needs are available;
	// the instance with the fewest runs, times its priority, goes first. off: rate_limiter has no effect.
	RateLimit string `json:"rate_limit" default:"off" limit:"one of off, execution_count"`
	// Counts of resources, as name:count or name:count:device. A device is the number of a GPU; the processor is 0. On the
	// devices that no entry of a resource names there is none of it. Unlisted resources have the largest count that an
	// instance needs.
	RateLimitResources []string `json:"rate_limit_resources" limit:"resources"`
	// Maximum memory of the implicit states of all sequences. A request whose state does not fit fails, and its
	// sequence is unchanged.
	SequenceStateBytes Size `json:"sequence_state_bytes" default:"256MiB" limit:"1KiB to 1TiB"`
	// Time for which a replaced or unloaded version keeps serving its sequences; then they must restart. At shutdown it
	// is at most half of shutdown.timeout. 0: requests that were accepted are answered, and no others.
	SequenceDrain time.Duration `json:"sequence_drain" default:"10s" limit:"0, or 1ms to 24h"`
}

// The values of engine.isolation.
const (
	IsolationProcess = "process"
	IsolationModel   = "model"
	IsolationNone    = "none"
)

// The values of engine.swap_without_room.
const (
	SwapRefuse = "refuse"
	SwapGap    = "gap"
)

// The values of engine.rate_limit.
const (
	RateLimitOff            = "off"
	RateLimitExecutionCount = "execution_count"
)

// SharedMemory says whether clients on the same machine may hand over tensors in shared memory.
type SharedMemory struct {
	// Whether clients on the same machine may register POSIX shared memory and name it in requests instead of sending
	// tensors. The box needs the right to open their objects in /dev/shm.
	Enabled bool `json:"enabled"`
}

// Shutdown bounds the stop of the server.
type Shutdown struct {
	// Time for which a box that is asked to stop still takes requests while it says that it is not ready, so that load
	// balancers find out first. A second signal ends it.
	Delay time.Duration `json:"delay" default:"0s" limit:"0, or 1ms to 1h"`
	// Time limit for requests in flight at shutdown.
	Timeout time.Duration `json:"timeout" default:"30s" limit:"0, or 1ms to 1h"`
}

// Log says what is logged, and how.
type Log struct {
	// The minimum level of log lines.
	Level string `json:"level" default:"info" limit:"one of debug, info, warn, error"`
	// The format of log lines. triton and triton-iso8601: as Triton's formats default and ISO8601.
	Format string `json:"format" default:"text" limit:"one of text, json, triton, triton-iso8601"`
	// Whether the text of a line in one of Triton's formats is a JSON string, so that nothing a client sent can begin a
	// line of its own. The other formats always escape. Also TRITON_SERVER_ESCAPE_LOG_MESSAGES, where 0 means false.
	Escape bool `json:"escape" default:"true"`
	// File that log lines are appended to. Empty: standard error.
	File string `json:"file" limit:"output"`
	// Whether lines of level info are logged, where log.level lets them through.
	Info bool `json:"info" default:"true"`
	// Whether warnings are logged, where log.level lets them through.
	Warning bool `json:"warning" default:"true"`
	// Whether errors are logged.
	Error bool `json:"error" default:"true"`
	// Above 0, details are logged as with the level debug.
	Verbose int `json:"verbose" unit:"number" limit:"0 to 2147483647"`
}

// The values of log.format.
const (
	LogText          = "text"
	LogJSON          = "json"
	LogTriton        = "triton"
	LogTritonISO8601 = "triton-iso8601"
)

// Metrics says what is measured for the metrics page, and where it stands.
type Metrics struct {
	// Whether /metrics answers.
	Enabled bool `json:"enabled" default:"true"`
	// Whether /metrics answers without a key, until the setting is changed in the page.
	Public bool `json:"public"`
	// Where the metrics listen on their own port, beside /metrics of the REST server.
	Address string `json:"address" default:"127.0.0.1:8002" limit:"address"`
	// Whether the CPU and memory utilization of the machine is in the metrics.
	CPU bool `json:"cpu" default:"true"`
	// Whether Triton's cumulative times are in the metrics.
	CounterLatencies bool `json:"counter_latencies" default:"true"`
	// Whether nv_inference_first_response_histogram_ms is in the metrics. The finer edgewise_request_seconds always is.
	HistogramLatencies bool `json:"histogram_latencies"`
	// Whether the summaries of times are in the metrics.
	SummaryLatencies bool `json:"summary_latencies"`
	// The quantiles of the summaries, each with its allowed error.
	SummaryQuantiles string `json:"summary_quantiles" default:"0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001" limit:"quantiles"`
}

// Alerts say when the appliance tells somebody, and whom, until they are changed in the page.
type Alerts struct {
	// Rules as kind:above:minutes:model, of which all but the kind may be missing. Kinds: error_rate (percent), p99
	// (milliseconds), disk (percent in use), temperature (degrees Celsius), model_down (nothing for above).
	Rules []string `json:"rules" unit:"list of rules" limit:"alerts"`
	// An alert that lasts is sent again after this time. 0: never.
	Repeat time.Duration `json:"repeat" default:"4h" limit:"0, or 1m to 744h"`
	// File with the URL that alerts are posted to as JSON. It is a file because such URLs are secrets.
	WebhookFile string `json:"webhook_file" limit:"file"`
	// Server that alerts are sent to by e-mail: TLS at port 465, otherwise STARTTLS where it is offered. Empty: none.
	EmailServer string `json:"email_server" limit:"address"`
	// Sender of e-mail.
	EmailFrom string `json:"email_from"`
	// Recipients of e-mail.
	EmailTo []string `json:"email_to" limit:"names"`
	// User of the mail server. Empty: no login.
	EmailUser string `json:"email_user"`
	// File with the password of that user.
	EmailPasswordFile string `json:"email_password_file" limit:"file"`
}

// Trace says which requests are traced from the start, and where traces go.
type Trace struct {
	// What traces contain.
	Levels []string `json:"levels" default:"OFF" limit:"levels"`
	// One in this many requests is traced. 0: only requests with a W3C trace context, with mode opentelemetry.
	Rate int `json:"rate" default:"1000" unit:"requests" limit:"0 to 2147483647"`
	// The number of requests to trace. -1: no limit.
	Count int `json:"count" default:"-1" unit:"requests" limit:"-1 to 2147483647"`
	// The exporter. triton: to trace.file, in Triton's format. opentelemetry: to trace.url.
	Mode string `json:"mode" default:"triton" limit:"one of triton, opentelemetry"`
	// File of traces with mode triton. Empty: none.
	File string `json:"file" limit:"output"`
	// Traces in one file: the first ones go to trace.file.0, the next to trace.file.1. 0: all go to trace.file.
	LogFrequency int `json:"log_frequency" unit:"traces" limit:"0 to 2147483647"`
	// URL of an OpenTelemetry collector (OTLP over HTTP).
	URL string `json:"url" default:"http://localhost:4318/v1/traces" limit:"URL"`
	// Resource attributes of traces, beside service.name.
	Resource []string `json:"resource" limit:"pairs"`
	// Maximum queued spans; further ones are dropped.
	QueueSize int `json:"queue_size" default:"2048" unit:"spans" limit:"1 to 1048576"`
	// Maximum delay of the export of a span.
	ExportDelay time.Duration `json:"export_delay" default:"5s" limit:"1ms to 1h"`
	// Maximum spans in one export.
	ExportBatch int `json:"export_batch" default:"512" unit:"spans" limit:"1 to 65536"`
}

// The values of trace.mode.
const (
	TraceTriton        = "triton"
	TraceOpenTelemetry = "opentelemetry"
)
