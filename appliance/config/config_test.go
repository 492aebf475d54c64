package config

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/document"
)

var update = flag.Bool("update", false, "write configs/appliance.yaml")

const shipped = "../../configs/appliance.yaml"

const header = `# The configuration of the appliance, every key at its default.
#
# A key is taken from the first of these that sets it: flags, environment, this file, defaults. The variable of a key is
# EDGEWISE_ and its name in capitals with '_' for '.': http.address is EDGEWISE_HTTP_ADDRESS. Lists are separated by
# commas there. A key or an EDGEWISE_ variable that does not exist is an error.
#
# Sizes are integers or have a binary unit: 4096, 64KiB, 64MiB, 2GiB. Durations have a unit: 500ms, 30s, 5m, 1h.
#
# The last sentence of each comment is the default, the unit or type, and the values that are allowed.

`

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheShippedFileHoldsEveryKeyAtItsDefault(t *testing.T) {
	var want bytes.Buffer
	want.WriteString(header)
	if err := Write(&want, Default()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(shipped, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Error(diff)
	}
	c, err := Load(Options{File: shipped})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resolved(t, Default()), c); diff != "" {
		t.Error(diff)
	}
	doc, err := document.Parse(shipped, document.YAML, got)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Default().Keys() {
		node := doc.Root
		for name := range strings.SplitSeq(k.Name, ".") {
			if node = node.Field(name); node == nil {
				t.Fatalf("%s is not in the file", k.Name)
			}
		}
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, k := range Default().Keys() {
		if k.Unit == "" || k.Default == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%+v", k)
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	file := write(t, "a.yaml", "log: {level: debug, format: json}\nengine: {max_queue: 5}\nhttp: {max_body_bytes: "+
		"134217728, allowed_hosts: [a.b]}\nstore: {snapshot_every: 0}\n")
	c, err := Load(Options{
		File: file,
		Env: []string{
			"PATH=/bin", "EDGEWISE_LOG_LEVEL=warn", "EDGEWISE_ENGINE_MAX_QUEUE=6",
			"EDGEWISE_HTTP_ALLOWED_HOSTS=box.local, edge", "EDGEWISE_METRICS_ENABLED=false", "EDGEWISE_HTTP_IDLE_TIMEOUT=1m30s",
		},
		Flags: map[string]string{"log.level": "error", "http.max_json_bytes": "1MiB"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Log.Level, want.Log.Format = "error", "json"
	want.Engine.MaxQueue = 6
	want.HTTP.MaxBodyBytes, want.HTTP.MaxJSONBytes = 128*MiB, MiB
	want.HTTP.AllowedHosts = []string{"box.local", "edge"}
	want.HTTP.IdleTimeout = 90 * time.Second
	want.Store.SnapshotEvery = 0
	want.Metrics.Enabled = false
	if diff := cmp.Diff(resolved(t, want), c); diff != "" {
		t.Error(diff)
	}
}

// resolved is c with its data folder as Load returns it.
func resolved(t *testing.T, c Config) Config {
	t.Helper()
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPathsAreAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(Options{
		File: write(t, "a.yaml", "data_dir: data\nrepository: {folders: [models, ./models/, x/../models, ../more, /abs]}\n"),
		Env:  []string{"EDGEWISE_LOG_FILE=log/box.log", "EDGEWISE_ONNX_LIBRARY=lib/libonnxruntime.so"},
		Flags: map[string]string{
			"trace.file": "trace.json", "grpc.tls_certificate": "tls/cert.pem", "grpc.tls_key": "tls/key.pem",
			"grpc.tls_client_authorities": "tls/ca.pem", "gpu.driver": "libcuda.so.1", "gpu.telemetry": "./libnvidia-ml.so.1",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []struct{ got, want string }{
		{got.DataDir, dir + "/data"},
		{strings.Join(got.Repository.Folders, " "), strings.Repeat(dir+"/models ", 3) + filepath.Dir(dir) + "/more /abs"},
		{got.Log.File, "log/box.log"},
		{got.ONNX.Library, dir + "/lib/libonnxruntime.so"},
		{got.Trace.File, "trace.json"},
		{got.GRPC.TLSCertificate, dir + "/tls/cert.pem"},
		{got.GRPC.TLSKey, dir + "/tls/key.pem"},
		{got.GRPC.TLSClientAuthorities, dir + "/tls/ca.pem"},
		{got.GPU.Driver, "libcuda.so.1"}, // a name that the system's loader searches
		{got.GPU.Telemetry, dir + "/libnvidia-ml.so.1"},
	} {
		if path.got != path.want {
			t.Errorf("got %s, want %s", path.got, path.want)
		}
	}
}

// TestEveryPathIsDeclaredAsOne keeps a new path from being left relative.
func TestEveryPathIsDeclaredAsOne(t *testing.T) {
	var c Config
	for _, k := range c.keys() {
		if k.limit.unit == "path" && !k.limit.path || k.limit.unit == "list of paths" && !k.limit.path {
			t.Errorf("%s: the limit of a path is folder, file, library or paths", k.name)
		}
	}
}

func TestTheEnvironmentNamesTheFile(t *testing.T) {
	first, second := write(t, "a.json", `{"data_dir": "first"}`), write(t, "b.yml", "data_dir: second")
	if c, err := Load(Options{Env: []string{FileVariable + "=" + first}}); err != nil || filepath.Base(c.DataDir) != "first" {
		t.Errorf("got %q, %v", c.DataDir, err)
	}
	if c, err := Load(Options{File: second, Env: []string{FileVariable + "=" + first}}); err != nil ||
		filepath.Base(c.DataDir) != "second" {
		t.Errorf("got %q, %v", c.DataDir, err)
	}
}

func TestIgnoredVariablesAreLeftAlone(t *testing.T) {
	if _, err := Load(Options{Env: []string{"EDGEWISE_SERVER=x"}, Ignore: []string{"EDGEWISE_SERVER"}}); err != nil {
		t.Error(err)
	}
}

func TestEveryProblemOfEveryPlaceIsReported(t *testing.T) {
	file := write(t, "a.yaml", "data_dir: \"\"\nhtpp: {}\nhttp:\n  max_connections: many\n  max_body_bytes: 3MB\n  "+
		"body_timeout: 30\n")
	_, err := Load(Options{
		File: file,
		Env: []string{
			"EDGEWISE_HTTP_ADRESS=:1", "EDGEWISE_ENGINE_MAX_QUEUE=0", "EDGEWISE_METRICS_ENABLED=yes",
			"EDGEWISE_UPLOAD_MAX_FILES=x",
		},
		Flags: map[string]string{
			"log.levl": "info", "log.format": "xml", "http.idle_timeout": "soon",
			"upload.max_bytes": "-1",
		},
	})
	want := strings.ReplaceAll(`<file>:2: unknown field "htpp" in the configuration (did you mean "http"?)
<file>:4: http.max_connections: want an integer from -9223372036854775808 to 9223372036854775807, got the text "many"
<file>:5: http.max_body_bytes: want a size such as 4096, 64KiB, 64MiB or 2GiB, got "3MB"
<file>:6: http.body_timeout: want a time with its unit, such as 30s or 1h30m, got the number 30
environment variable "EDGEWISE_HTTP_ADRESS" stands for no key (did you mean "EDGEWISE_HTTP_ADDRESS"?)
environment variable EDGEWISE_METRICS_ENABLED: want true or false, got "yes"
environment variable EDGEWISE_UPLOAD_MAX_FILES: want a whole number, got "x"
flag http.idle_timeout: want a time with its unit, such as 30s or 1h30m, got "soon"
flag "log.levl" stands for no key (did you mean "log.level"?)
flag upload.max_bytes: want a size such as 4096, 64KiB, 64MiB or 2GiB, got "-1"
data_dir: want a path, got ""
engine.max_queue: want 1 to 1048576, got 0
log.format: want one of text, json, triton, triton-iso8601, got xml`, "<file>", file)
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "a.yaml")
	tests := []struct {
		name, file, want string
		kind             edgewise.Kind
	}{
		{"missing", missing, "configuration file: open " + missing + ": no such file or directory", edgewise.NotFound},
		{
			"another syntax", "a.toml", `configuration file "a.toml": want a name that ends in .yaml, .yml or .json`,
			edgewise.Invalid,
		},
		{
			"text format", "a.pbtxt", `configuration file "a.pbtxt": want a name that ends in .yaml, .yml or .json`,
			edgewise.Invalid,
		},
		{
			"too large", write(t, "a.yaml", strings.Repeat(" ", document.MaxBytes+1)),
			"FILE: document has 262145 bytes: at most 262144 are allowed", edgewise.TooLarge,
		},
		{"syntax", write(t, "a.json", "{\n"), "FILE:2: unexpected end of JSON input", edgewise.Invalid},
		{"a folder", filepath.Dir(write(t, "a.yaml", "")) + "/.yaml", "", edgewise.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Options{File: tt.file})
			if err == nil || edgewise.KindOf(err) != tt.kind || tt.want != "" &&
				err.Error() != strings.ReplaceAll(tt.want, "FILE", tt.file) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestEveryLimitIsKept(t *testing.T) {
	tests := []struct{ key, fits, over string }{
		{"data_dir", "x", ""},
		{"auth", "open", "none"},
		{"tls.mode", "require", "on"},
		{"http.address", ":0", "localhost"},
		{"http.address", "", "localhost"},
		{"http.address", "[::1]:65535", "[::1]:65536"},
		{"http.max_json_bytes", "1KiB", "1023"},
		{"http.max_body_bytes", "64MiB", "17GiB"},
		{"http.max_inflight_bytes", "1TiB", "1025GiB"},
		{"http.max_connections", "65536", "65537"},
		{"http.header_timeout", "1h", "61m"},
		{"http.body_timeout", "1ms", "0"},
		{"http.idle_timeout", "24h", "25h"},
		{"http.write_timeout", "24h", "-1s"},
		{"gpu.mode", "off", "on"},
		{"gpu.telemetry_every", "100ms", "99ms"},
		{"gpu.libraries", "/a" + strings.Repeat(",/b", 63), "/a" + strings.Repeat(",/b", 64)},
		{"gpu.libraries", "/opt/cuda/lib64", "cuda/lib64"},
		{"gpu.devices", "0,1" + strings.Repeat(",1", 62), "0" + strings.Repeat(",1", 64)},
		{"gpu.vulkan_drivers", "/a.json" + strings.Repeat(",/b.json", 63), "/a.json" + strings.Repeat(",/b.json", 64)},
		{"gpu.vulkan_drivers", "/etc/vulkan/icd.d/a.json", "a.json"},
		{"gpu.shader_cache_bytes", "1MiB", "1023KiB"},
		{"gpu.engine_cache_bytes", "1MiB", "1023KiB"},
		{"gpu.devices", "GPU-8b2f,MIG-1/2/3", "GPU-8b2f;0"},
		{"gpu.max_memory_bytes", "16TiB", "17TiB"},
		{"gpu.trial_time", "0s", "11m"},
		{
			"http.cors_origins", "https://a.b" + strings.Repeat(",http://x", 63),
			"https://a.b" + strings.Repeat(",http://x", 64),
		},
		{"http.cors_origins", "*", "a.b"},
		{"http.cors_origins", "", "https://a.b/"},
		{"http.trusted_proxies", "10.0.0.0/8,::1" + strings.Repeat(",192.0.2.7", 62), "::1" + strings.Repeat(",192.0.2.7", 64)},
		{"http.trusted_proxies", "2001:db8::/64", "10.0.0.0/33"},
		{"http.trusted_proxies", "", "proxy.example"},
		{"http.allowed_hosts", "a.b-c,x" + strings.Repeat(",x", 62), "x" + strings.Repeat(",x", 64)},
		{"http.allowed_hosts", strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a"},
		{"http.allowed_hosts", "", "a:80"},
		{"http.allowed_hosts", "*", "*.a"},
		{"grpc.address", "", "localhost"},
		{"grpc.address", ":0", "localhost:65536"},
		{"grpc.max_message_bytes", "2147483647", "2GiB"},
		{"grpc.max_inflight_bytes", "1TiB", "1025GiB"},
		{"grpc.max_connections", "65536", "0"},
		{"grpc.max_streams", "1", "65537"},
		{"grpc.connect_timeout", "1ms", "0"},
		{"grpc.keepalive_time", "1s", "999ms"},
		{"grpc.keepalive_timeout", "1h", "0"},
		{"grpc.keepalive_min_interval", "1ms", "0"},
		{"grpc.max_connection_age", "0", "1ms"},
		{"grpc.max_connection_age_grace", "0", "-1s"},
		{"upload.max_bytes", "16TiB", "17TiB"},
		{"upload.max_files", "65536", "0"},
		{"upload.concurrent", "64", "65"},
		{"store.reserve_bytes", "0", "17TiB"},
		{"store.snapshot_every", "0", "59s"},
		{"store.snapshots", "1000", "1001"},
		{"onnx.threads", "1024", "1025"},
		{"wasm.max_memory_bytes", "1GiB", "1025MiB"},
		{"wasm.run_timeout", "1ms", "25h"},
		{"wasm.cache_bytes", "1MiB", "1023KiB"},
		{"engine.max_queue", "1048576", "1048577"},
		{"engine.test_queued", "1048576", "1048577"},
		{"engine.test_backlog", "1048576", "1048577"},
		{"engine.request_timeout", "0s", "-1s"},
		{"engine.load_timeout", "1s", "999ms"},
		{"engine.load_concurrency", "64", "65"},
		{"fleet.source", "oci://registry.example/fleet:current", "oci://user@registry.example/fleet"},
		{"fleet.source", "https://fleet.example/shops/", "ftp://fleet.example/"},
		{"fleet.source", "/media/stick/fleet", "stick/fleet"},
		{"fleet.source", "s3://b/" + strings.Repeat("x", 2041), "s3://b/" + strings.Repeat("x", 2042)},
		{"fleet.interval", "1s", "999ms"},
		{"fleet.interval", "24h", "24h1s"},
		{"fleet.labels", "site=berlin" + strings.Repeat(",a=b", 63), "site"},
		{"fleet.labels", "a=b" + strings.Repeat(",a=b", 63), "a=b" + strings.Repeat(",a=b", 64)},
		{"fleet.box", strings.Repeat("ü", 63), strings.Repeat("ü", 64)},
		{"fleet.box", "berlin 1", "berlin\x001"},
		{"engine.default_max_batch_size", "0", "65537"},
		{"shutdown.timeout", "0", "2h"},
		{"shutdown.delay", "1h", "2h"},
		{"log.level", "debug", "trace"},
		{"log.format", "json", "JSON"},
		{"engine.isolation", "none", "container"},
		{"engine.max_memory_bytes", "16TiB", "17TiB"},
		{"engine.swap_without_room", "gap", "wait"},
		{"engine.load_cpu_time", "1s", "25h"},
		{"engine.max_address_space", "0", "17TiB"},
		{"onnx.max_memory_bytes", "0", "17TiB"},
		{"engine.response_cache_bytes", "0", "17TiB"},
		{"engine.rate_limit", "execution_count", "on"},
		{"engine.rate_limit_resources", "R1:4,R2:0,R2:3:1", "R1:4,R1:4"},
		{"engine.rate_limit_resources", "a:b:4294967295", "R1"},
		{"engine.rate_limit_resources", "R1:4", "R1:4294967296"},
		{"engine.sequence_state_bytes", "1KiB", "1023"},
		{"engine.sequence_drain", "0", "25h"},
		{"server.id", "x", ""},
		{"http.forward_headers", "^x-", "("},
		{"http.restricted_api", "health;metadata:k=v,trace:k2=", "health:k=v,health:k=v"},
		{"http.restricted_api", "", "everything:k=v"},
		{"grpc.forward_headers", "", "["},
		{"grpc.restricted_api", "model-repository:k=v", "model-repository:=v"},
		{"grpc.response_compression", "high", "most"},
		{"engine.backends", "a,b", "a" + strings.Repeat(",a", 64)},
		{"repository.folders", "a,b", "a" + strings.Repeat(",a", 64)},
		{"repository.control_mode", "explicit", "manual"},
		{"repository.load_models", "*", "a" + strings.Repeat(",a", 10_000)},
		{"repository.poll_interval", "100ms", "99ms"},
		{"repository.load_retries", "1000", "1001"},
		{"log.verbose", "1000", "-1"},
		{"metrics.address", "", "localhost"},
		{"metrics.summary_quantiles", "0.5:0.05", "1.5:0.05"},
		{"metrics.summary_quantiles", "0.5:0.05,0.9:0.01", "0.5"},
		{"trace.levels", "TIMESTAMPS,TENSORS", "OFF,TENSORS"},
		{"trace.rate", "0", "-1"},
		{"trace.count", "-1", "-2"},
		{"trace.mode", "opentelemetry", "jaeger"},
		{"trace.log_frequency", "0", "-1"},
		{"trace.url", "https://a:4318/v1/traces", "a:4318"},
		{"trace.resource", "a=b,c=", "=b"},
		{"alerts.rules", "p99:200:5:cat,model_down", "disc:90"},
		{"alerts.rules", "disk:90", "disk:much"},
		{"alerts.rules", "disk:90:5", "disk:90:-5"},
		{"alerts.repeat", "0", "1s"},
		{"alerts.email_server", "mail:587", "mail"},
		{"alerts.email_to", "a@b,c@d", "a" + strings.Repeat(",a", 10_000)},
		{"trace.queue_size", "1", "0"},
		{"trace.export_delay", "1ms", "61m"},
		{"trace.export_batch", "65536", "65537"},
	}
	tested := map[string]bool{}
	for _, tt := range tests {
		tested[tt.key] = true
		if _, err := Load(Options{Flags: map[string]string{tt.key: tt.fits}}); err != nil {
			t.Errorf("%s = %q: %v", tt.key, tt.fits, err)
		}
		if _, err := Load(Options{Flags: map[string]string{tt.key: tt.over}}); err == nil ||
			!strings.Contains(err.Error(), tt.key+": want ") {
			t.Errorf("%s = %q: got %v", tt.key, tt.over, err)
		}
	}
	for _, k := range Default().Keys() {
		if k.Want != "" && !tested[k.Name] {
			t.Errorf("no test crosses the limit of %s", k.Name)
		}
	}
}

// TestAProblemWithAURLHasNoSecret has URLs with a password or a signature, each where it is refused.
func TestAProblemWithAURLHasNoSecret(t *testing.T) {
	for _, place := range []string{
		"s3://key:hush@host/bucket", "s3://https://key:hush@host:9000/bucket", "as://account/container?sig=hush", "gs://bucket/path#hush",
		"oci://hush@registry.example/cat",
	} {
		c := Default()
		c.Repository.Folders, c.Fleet.Source = []string{"/srv/models", place}, place
		err := c.Validate()
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "repository.folders") ||
			!strings.Contains(err.Error(), "fleet.source") || !strings.Contains(err.Error(), "/srv/models") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

func TestSizesThatContainEachOtherAreHeldTogether(t *testing.T) {
	_, err := Load(Options{Flags: map[string]string{
		"http.max_json_bytes": "2MiB", "http.max_body_bytes": "1MiB",
		"http.max_inflight_bytes": "1000",
	}})
	want := "http.max_inflight_bytes: want 1KiB to 1TiB, got 1000\nhttp.max_json_bytes: want at most " +
		"http.max_body_bytes, which is 1MiB, got 2MiB\nhttp.max_body_bytes: want at most http.max_inflight_bytes, which is 1000, got 1MiB"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		text string
		want Size
		back string
	}{
		{"0", 0, "0"},
		{"1000", 1000, "1000"},
		{"1024", KiB, "1KiB"},
		{"12B", 12, "12"},
		{"64 MiB", 64 * MiB, "64MiB"},
		{"2048MiB", 2 * GiB, "2GiB"},
		{"3TiB", 3 * TiB, "3TiB"},
		{"9223372036854775807", math.MaxInt64, "9223372036854775807"},
	}
	for _, tt := range tests {
		var s Size
		if err := s.UnmarshalText([]byte(tt.text)); err != nil || s != tt.want || s.String() != tt.back {
			t.Errorf("%q: got %d (%v), %v", tt.text, s, s, err)
		}
	}
	for _, text := range []string{
		"", "B", "MiB", "1.5GiB", "64MB", "64M", "-1", "+1", "0x10", "9223372036854775808",
		"8388608TiB", "1KiBMiB",
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: got %d", text, s)
		}
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.DataDir = "d" + rapid.String().Draw(t, "data_dir")
		c.ONNX.Library = rapid.StringMatching(`(true|no|~|[ -~]*)`).Draw(t, "library")
		c.HTTP.IdleTimeout = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "idle"))
		c.Engine.LoadTimeout = time.Duration(rapid.IntRange(1, 1440).Draw(t, "load")) * time.Minute
		c.Upload.MaxBytes = Size(rapid.Int64Range(int64(KiB), int64(TiB)).Draw(t, "upload"))
		c.HTTP.AllowedHosts = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "no", "1", "x.y"}), 0, 3).Draw(t, "hosts")
		var b bytes.Buffer
		if err := Write(&b, c); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(Options{File: file})
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if err := c.makeAbsolute(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fmt.Sprintf("%+v", c), fmt.Sprintf("%+v", got)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestResourcesAreOfADeviceOrOfAll(t *testing.T) {
	e := Engine{RateLimitResources: []string{"R:4", "R:6:1", "a:b:2:0"}}
	want := map[string]map[int]int{"R": {-1: 4, 1: 6}, "a:b": {0: 2}}
	if got := e.Resources(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTritonsVariablesStandForKeys(t *testing.T) {
	env := []string{
		"TRITONSERVER_DELAY_SCHEDULER=4", "TRITONSERVER_BACKLOG_DELAY_SCHEDULER=2", "TRITONSERVER_OTHER=x",
		"EDGEWISE_ENGINE_TEST_BACKLOG=3",
	}
	c, err := Load(Options{Env: env})
	if err != nil || c.Engine.TestQueued != 4 || c.Engine.TestBacklog != 3 {
		t.Errorf("got %d and %d, %v", c.Engine.TestQueued, c.Engine.TestBacklog, err)
	}
	if _, err := Load(Options{Env: []string{"TRITONSERVER_DELAY_SCHEDULER=x"}}); err == nil {
		t.Error("a value that is no number is taken")
	}
	for value, want := range map[string]bool{"0": false, "1": true, "": true, "false": true} {
		c, err := Load(Options{Env: []string{"TRITON_SERVER_ESCAPE_LOG_MESSAGES=" + value}})
		if err != nil || c.Log.Escape != want {
			t.Errorf("escape with %q: got %v, want %v, %v", value, c.Log.Escape, want, err)
		}
	}
}
