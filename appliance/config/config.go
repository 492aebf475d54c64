// Package config reads the configuration of the appliance. It is the only package that looks at the configuration file,
// at EDGEWISE_ variables and at flags that stand for keys.
//
// A key is taken from the first of these that sets it: flags, environment, file, defaults. Nothing is looked up twice:
// Load is called once, and a Config is not changed afterwards.
package config

import "time"

// Config is the configuration of the appliance. What each key means, its unit and its limits are in Keys.
type Config struct {
	DataDir      string       `json:"data_dir"`
	Server       Server       `json:"server"`
	Auth         string       `json:"auth"`
	DemoKey      bool         `json:"demo_key"`
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
}

// Server is what the box says of itself.
type Server struct {
	ID string `json:"id"`
}

// HTTP bounds the REST server.
type HTTP struct {
	Address          string        `json:"address"`
	MaxJSONBytes     Size          `json:"max_json_bytes"`
	MaxBodyBytes     Size          `json:"max_body_bytes"`
	MaxInflightBytes Size          `json:"max_inflight_bytes"`
	MaxConnections   int           `json:"max_connections"`
	HeaderTimeout    time.Duration `json:"header_timeout"`
	BodyTimeout      time.Duration `json:"body_timeout"`
	IdleTimeout      time.Duration `json:"idle_timeout"`
	WriteTimeout     time.Duration `json:"write_timeout"`
	AllowedHosts     []string      `json:"allowed_hosts"`
	CORSOrigins      []string      `json:"cors_origins"`
	ForwardHeaders   string        `json:"forward_headers"`
	RestrictedAPI    []string      `json:"restricted_api"`
	ReusePort        bool          `json:"reuse_port"`
}

// The values of auth.
const (
	AuthAccounts = "accounts"
	AuthOpen     = "open"
)

// The values of tls.mode.
const (
	TLSAuto    = "auto"
	TLSRequire = "require"
	TLSOff     = "off"
)

// TLS says who must speak TLS.
type TLS struct {
	Mode string `json:"mode"`
}

// GRPC bounds the gRPC server. Its JSON names are those of the keys.
type GRPC struct {
	Address                     string        `json:"address"`
	MaxMessageBytes             Size          `json:"max_message_bytes"`
	MaxInflightBytes            Size          `json:"max_inflight_bytes"`
	MaxConnections              int           `json:"max_connections"`
	MaxStreams                  int           `json:"max_streams"`
	ConnectTimeout              time.Duration `json:"connect_timeout"`
	TLSCertificate              string        `json:"tls_certificate"`
	TLSKey                      string        `json:"tls_key"`
	TLSClientAuthorities        string        `json:"tls_client_authorities"`
	KeepaliveTime               time.Duration `json:"keepalive_time"`
	KeepaliveTimeout            time.Duration `json:"keepalive_timeout"`
	KeepaliveMinInterval        time.Duration `json:"keepalive_min_interval"`
	KeepalivePermitWithoutCalls bool          `json:"keepalive_permit_without_calls"`
	MaxConnectionAge            time.Duration `json:"max_connection_age"`
	MaxConnectionAgeGrace       time.Duration `json:"max_connection_age_grace"`
	ForwardHeaders              string        `json:"forward_headers"`
	RestrictedAPI               []string      `json:"restricted_api"`
	ReusePort                   bool          `json:"reuse_port"`
	ResponseCompression         string        `json:"response_compression"`
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
	MaxBytes   Size `json:"max_bytes"`
	MaxFiles   int  `json:"max_files"`
	Concurrent int  `json:"concurrent"`
}

// Store configures the store of models.
type Store struct {
	ReserveBytes  Size          `json:"reserve_bytes"`
	SnapshotEvery time.Duration `json:"snapshot_every"`
	Snapshots     int           `json:"snapshots"`
}

// The values of repository.control_mode.
const (
	ControlNone     = "none"
	ControlPoll     = "poll"
	ControlExplicit = "explicit"
)

// Repository says which folders in Triton's repository layout feed the store, and when.
type Repository struct {
	Folders      []string      `json:"folders"`
	ControlMode  string        `json:"control_mode"`
	LoadModels   []string      `json:"load_models"`
	PollInterval time.Duration `json:"poll_interval"`
	ConfigName   string        `json:"config_name"`
	ExitOnError  bool          `json:"exit_on_error"`
	LoadRetries  int           `json:"load_retries"`
}

// ONNX configures the backend of ONNX models.
type ONNX struct {
	Library string `json:"library"`
	Threads int    `json:"threads"`
}

// The values of gpu.mode.
const (
	GPUAuto = "auto"
	GPUOff  = "off"
)

// GPU configures the use of GPUs.
type GPU struct {
	Mode           string        `json:"mode"`
	Driver         string        `json:"driver"`
	Telemetry      string        `json:"telemetry"`
	TelemetryEvery time.Duration `json:"telemetry_every"`
	Libraries      []string      `json:"libraries"`
	Devices        []string      `json:"devices"`
	MaxMemoryBytes Size          `json:"max_memory_bytes"`
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

// Wasm bounds what WebAssembly steps may take.
type Wasm struct {
	MaxMemoryBytes Size          `json:"max_memory_bytes"`
	RunTimeout     time.Duration `json:"run_timeout"`
	CacheBytes     Size          `json:"cache_bytes"`
}

// Engine bounds loading and running.
type Engine struct {
	MaxQueue            int           `json:"max_queue"`
	TestQueued          int           `json:"test_queued"`
	TestBacklog         int           `json:"test_backlog"`
	RequestTimeout      time.Duration `json:"request_timeout"`
	LoadTimeout         time.Duration `json:"load_timeout"`
	LoadConcurrency     int           `json:"load_concurrency"`
	DefaultMaxBatchSize int           `json:"default_max_batch_size"`
	AutoComplete        bool          `json:"auto_complete"`
	StrictReadiness     bool          `json:"strict_readiness"`
	PinCores            bool          `json:"pin_cores"`
	Isolation           string        `json:"isolation"`
	MaxMemoryBytes      Size          `json:"max_memory_bytes"`
	SwapWithoutRoom     string        `json:"swap_without_room"`
	LoadCPUTime         time.Duration `json:"load_cpu_time"`
	MaxAddressSpace     Size          `json:"max_address_space"`
	ResponseCacheBytes  Size          `json:"response_cache_bytes"`
	RateLimit           string        `json:"rate_limit"`
	RateLimitResources  []string      `json:"rate_limit_resources"`
	SequenceStateBytes  Size          `json:"sequence_state_bytes"`
	SequenceDrain       time.Duration `json:"sequence_drain"`
}

// Shutdown bounds the stop of the server.
type Shutdown struct {
	Timeout time.Duration `json:"timeout"`
}

// Log says what is logged, and how.
type Log struct {
	Level   string `json:"level"`
	Format  string `json:"format"`
	File    string `json:"file"`
	Info    bool   `json:"info"`
	Warning bool   `json:"warning"`
	Error   bool   `json:"error"`
	Verbose int    `json:"verbose"`
}

// The values of log.format.
const (
	LogText          = "text"
	LogJSON          = "json"
	LogTriton        = "triton"
	LogTritonISO8601 = "triton-iso8601"
)

// SharedMemory says whether clients on the same machine may hand over tensors in shared memory.
type SharedMemory struct {
	Enabled bool `json:"enabled"`
}

// Metrics says what is measured for the metrics page, and where it stands.
type Metrics struct {
	Enabled            bool   `json:"enabled"`
	Public             bool   `json:"public"`
	Address            string `json:"address"`
	CPU                bool   `json:"cpu"`
	CounterLatencies   bool   `json:"counter_latencies"`
	HistogramLatencies bool   `json:"histogram_latencies"`
	SummaryLatencies   bool   `json:"summary_latencies"`
	SummaryQuantiles   string `json:"summary_quantiles"`
}

// The values of trace.mode.
const (
	TraceTriton        = "triton"
	TraceOpenTelemetry = "opentelemetry"
)

// Trace says which requests are traced from the start, and where traces go.
type Trace struct {
	Levels       []string      `json:"levels"`
	Rate         int           `json:"rate"`
	Count        int           `json:"count"`
	Mode         string        `json:"mode"`
	File         string        `json:"file"`
	LogFrequency int           `json:"log_frequency"`
	URL          string        `json:"url"`
	Resource     []string      `json:"resource"`
	QueueSize    int           `json:"queue_size"`
	ExportDelay  time.Duration `json:"export_delay"`
	ExportBatch  int           `json:"export_batch"`
}

// Default returns the configuration that holds when nothing is set.
func Default() Config {
	return Config{
		DataDir: "data",
		Server:  Server{ID: "triton"},
		Auth:    AuthAccounts,
		HTTP: HTTP{
			Address: "127.0.0.1:8000", MaxJSONBytes: 64 * MiB, MaxBodyBytes: 256 * MiB, MaxInflightBytes: GiB,
			MaxConnections: 1024,
			HeaderTimeout:  10 * time.Second, BodyTimeout: time.Minute, IdleTimeout: 2 * time.Minute, WriteTimeout: time.Minute,
			AllowedHosts: []string{}, CORSOrigins: []string{}, RestrictedAPI: []string{},
		},
		TLS: TLS{Mode: TLSAuto},
		GRPC: GRPC{
			Address: "127.0.0.1:8001", MaxMessageBytes: 256 * MiB, MaxInflightBytes: GiB, MaxConnections: 1024, MaxStreams: 1024,
			ConnectTimeout: 10 * time.Second,
			KeepaliveTime:  2 * time.Hour, KeepaliveTimeout: 20 * time.Second, KeepaliveMinInterval: 5 * time.Minute,
			RestrictedAPI: []string{}, ResponseCompression: CompressionNone,
		},
		Upload: Upload{MaxBytes: 32 * GiB, MaxFiles: 1024, Concurrent: 2},
		Store:  Store{ReserveBytes: GiB, SnapshotEvery: time.Hour, Snapshots: 24},
		Repository: Repository{
			Folders: []string{}, ControlMode: ControlNone, LoadModels: []string{},
			PollInterval: 15 * time.Second, ExitOnError: true,
		},
		Wasm: Wasm{MaxMemoryBytes: 64 * MiB, RunTimeout: time.Minute, CacheBytes: 256 * MiB},
		GPU:  GPU{Mode: GPUAuto, TelemetryEvery: 2 * time.Second, Libraries: []string{}, Devices: []string{}},
		Engine: Engine{
			MaxQueue: 1024, RequestTimeout: time.Minute, LoadTimeout: 5 * time.Minute, LoadConcurrency: 1,
			DefaultMaxBatchSize: 4, AutoComplete: true, StrictReadiness: true, PinCores: true,
			Isolation: IsolationProcess, SwapWithoutRoom: SwapRefuse, LoadCPUTime: 5 * time.Minute, ResponseCacheBytes: 64 * MiB,
			RateLimit: RateLimitOff, RateLimitResources: []string{}, SequenceStateBytes: 256 * MiB,
			SequenceDrain: 10 * time.Second,
		},
		Shutdown: Shutdown{Timeout: 30 * time.Second},
		Log:      Log{Level: "info", Format: LogText, Info: true, Warning: true, Error: true},
		Metrics: Metrics{
			Enabled: true, Address: "127.0.0.1:8002", CPU: true, CounterLatencies: true,
			SummaryQuantiles: "0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001",
		},
		Trace: Trace{
			Levels: []string{"OFF"}, Rate: 1000, Count: -1, Mode: TraceTriton, URL: "http://localhost:4318/v1/traces",
			Resource:  []string{},
			QueueSize: 2048, ExportDelay: 5 * time.Second, ExportBatch: 512,
		},
	}
}
