package settings

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// Why flags have no effect.
const (
	goroutines = "requests take no threads of their own here"
	noPools    = "there are no such pools here"
	oneBackend = "backends are built in"
)

// tritonTable are Triton's flags, in the order of its own help.
func tritonTable() []tritonFlag {
	return append(append(modelFlags(), serverFlags()...), otherFlags()...)
}

func modelFlags() []tritonFlag {
	return []tritonFlag{
		key("id", "server.id"),
		list("model-repository", "repository.folders"),
		list("model-store", "repository.folders"),
		word("model-control-mode", "repository.control_mode"),
		list("load-model", "repository.load_models"),
		span("repository-poll-secs", "repository.poll_interval", time.Second),
		{name: "model-config-name", apply: func(t *Triton, text string) error {
			if text == "" {
				return errors.New("empty argument for --model-config-name")
			}
			t.values["repository.config_name"] = text
			return nil
		}},
		truth("exit-on-error", "repository.exit_on_error"),
		truth("strict-readiness", "engine.strict_readiness"),
		span("exit-timeout-secs", "shutdown.timeout", time.Second),
		opposite("disable-auto-complete-config", "engine.auto_complete"), opposite("strict-model-config", "engine.auto_complete"),
		key("model-load-thread-count", "engine.load_concurrency"),
		key("model-load-retry-count", "repository.load_retries"),
		never("model-namespacing", "models of the same name in several repositories are not served: give them names of their own"),
		pointless("model-load-gpu-limit", "gpu.max_memory_bytes bounds what models take of each GPU", gpuLimit),
		{name: "backend-config", apply: backendConfig},
		pointless("backend-directory", oneBackend),
		pointless("repoagent-directory", "the repository agent checksum is built in, and others are native code, which is never run"),
		{name: "cache-config", apply: cacheConfig},
		pointless("cache-directory", "the response cache is built in"),
		{name: "response-cache-byte-size", apply: cacheSize("cache-config")},
		pointless("host-policy", "cores are shared by all models: onnx.threads bounds them"),
	}
}

func serverFlags() []tritonFlag {
	return []tritonFlag{
		boolean(kept("allow-http")), kept("http-address"), kept("http-port"),
		truth("reuse-http-port", "http.reuse_port"),
		key("http-header-forward-pattern", "http.forward_headers"),
		pointless("http-thread-count", goroutines, number(1, math.MaxInt64)),
		{name: "http-max-input-size", apply: httpMaxInput},
		{name: "http-restricted-api", apply: restricted("http.restricted_api", "api")},
		boolean(kept("allow-grpc")), kept("grpc-address"), kept("grpc-port"),
		truth("reuse-grpc-port", "grpc.reuse_port"),
		key("grpc-header-forward-pattern", "grpc.forward_headers"),
		pointless("grpc-infer-thread-count", goroutines, number(2, 128)),
		pointless("grpc-infer-allocation-pool-size", noPools, number(math.MinInt64, math.MaxInt64)),
		pointless("grpc-max-response-pool-size", noPools, number(1, math.MaxInt64)),
		boolean(kept("grpc-use-ssl")), boolean(kept("grpc-use-ssl-mutual")),
		kept("grpc-server-cert"), kept("grpc-server-key"), kept("grpc-root-cert"),
		word("grpc-infer-response-compression-level", "grpc.response_compression"),
		span("grpc-keepalive-time", "grpc.keepalive_time", time.Millisecond),
		span("grpc-keepalive-timeout", "grpc.keepalive_timeout", time.Millisecond),
		truth("grpc-keepalive-permit-without-calls", "grpc.keepalive_permit_without_calls"),
		pointless("grpc-http2-max-pings-without-data", "the server asks after each keepalive time, with or without data"),
		span("grpc-http2-min-recv-ping-interval-without-data", "grpc.keepalive_min_interval", time.Millisecond),
		pointless("grpc-http2-max-ping-strikes", "two strikes are allowed, as by Triton's default"),
		span("grpc-max-connection-age", "grpc.max_connection_age", time.Millisecond),
		span("grpc-max-connection-age-grace", "grpc.max_connection_age_grace", time.Millisecond),
		{name: "grpc-restricted-protocol", apply: restricted("grpc.restricted_api", "protocol")},
		never("allow-sagemaker", "SageMaker's routes are not served"),
		pointless("sagemaker-port", "SageMaker's routes are not served"),
		pointless("sagemaker-safe-port-range", "SageMaker's routes are not served"),
		pointless("sagemaker-thread-count", "SageMaker's routes are not served"),
		never("allow-vertex-ai", "Vertex AI's routes are not served"),
		pointless("vertex-ai-port", "Vertex AI's routes are not served"),
		pointless("vertex-ai-thread-count", "Vertex AI's routes are not served"),
		pointless("vertex-ai-default-model", "Vertex AI's routes are not served"),
	}
}

func otherFlags() []tritonFlag {
	return []tritonFlag{
		{name: "log-verbose", apply: logVerbose},
		truth("log-info", "log.info"), truth("log-warning", "log.warning"), truth("log-error", "log.error"),
		{name: "log-format", apply: logFormat},
		key("log-file", "log.file"),
		truth("allow-metrics", "metrics.enabled"), kept("metrics-address"), kept("metrics-port"),
		boolean(pointless("allow-gpu-metrics", "the metrics of GPUs are on the metrics page wherever one is found")),
		truth("allow-cpu-metrics", "metrics.cpu"),
		pointless("metrics-interval-ms", "every answer of the metrics page is read at that moment"),
		{name: "metrics-config", apply: metricsConfig},
		{name: "trace-config", apply: traceConfig},
		key("trace-file", "trace.file"),
		{name: "trace-level", apply: traceLevel},
		key("trace-rate", "trace.rate"),
		key("trace-count", "trace.count"), key("trace-log-frequency", "trace.log_frequency"),
		word("rate-limit", "engine.rate_limit"),
		{name: "rate-limit-resource", apply: rateLimitResource},
		pointless("pinned-memory-pool-byte-size", noPools),
		pointless("cuda-memory-pool-byte-size", noPools),
		pointless("cuda-virtual-address-size", noPools),
		pointless("min-supported-compute-capability", "ONNX Runtime's provider says which GPUs it has code for; \"edgewise doctor\" shows them"),
		pointless("buffer-manager-thread-count", "tensors are gathered where they are run"),
		boolean(pointless("enable-peer-access", "a version has a process of its own for each GPU, and GPUs exchange nothing")),
		truth("allow-client-shm", "shared_memory.enabled"),
	}
}

// backendConfig reads "onnxruntime,key=value" and "key=value", which is for all backends.
func backendConfig(t *Triton, text string) error {
	backend, setting, found := strings.Cut(text, ",")
	if !found {
		backend, setting = "", text
	}
	name, value, ok := strings.Cut(setting, "=")
	switch {
	case !ok:
		return fmt.Errorf("%.80q: want backend,name=value", text)
	case backend != "" && backend != appliance.Formats()[0].Backend:
		t.note("backend-config", fmt.Sprintf("there is no backend %.40q", backend))
	case name == "default-max-batch-size":
		t.values["engine.default_max_batch_size"] = value
	default:
		t.note("backend-config", fmt.Sprintf("%.60q: %s; onnx.threads bounds the threads of all models together", name, oneBackend))
	}
	return nil
}

// cacheConfig reads "local,size=bytes".
func cacheConfig(t *Triton, text string) error {
	cache, setting, _ := strings.Cut(text, ",")
	name, value, _ := strings.Cut(setting, "=")
	switch {
	case cache != "local":
		return fmt.Errorf("%.40q: only the cache \"local\" is built in", cache)
	case name != "size":
		return fmt.Errorf("%.80q: want local,size=bytes", text)
	}
	return cacheSize("response-cache-byte-size")(t, value)
}

// cacheSize sets the size of the response cache, which another flag may not have set.
func cacheSize(other string) func(t *Triton, text string) error {
	return func(t *Triton, text string) error {
		if _, given := t.given[other]; given {
			return fmt.Errorf("the response cache is given twice: --%s is there too", other)
		}
		t.values["engine.response_cache_bytes"] = text
		return nil
	}
}

// rateLimitResource reads "name:count" and "name:count:device".
func rateLimitResource(t *Triton, text string) error {
	if parts := strings.Split(text, ":"); len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%.80q: want name:count or name:count:device", text)
	}
	t.append("engine.rate_limit_resources", text)
	return nil
}

// httpMaxInput bounds what is carried in JSON, and makes room for it in the body where that is smaller.
func httpMaxInput(t *Triton, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("--http-max-input-size must be greater than 0: want a number of bytes, got %.40q", text)
	}
	t.values["http.max_json_bytes"] = text
	preset := config.Default()
	if n > int64(preset.HTTP.MaxBodyBytes) {
		t.values["http.max_body_bytes"] = text
	}
	if n > int64(preset.HTTP.MaxInflightBytes) {
		t.values["http.max_inflight_bytes"] = text
	}
	return nil
}

// restricted reads "health,metadata:key=value". what is Triton's word for one of the APIs.
func restricted(key, what string) func(t *Triton, text string) error {
	return func(t *Triton, text string) error {
		apis, secret, ok := strings.Cut(text, ":")
		if name, value, pair := strings.Cut(secret, "="); !ok || !pair || apis == "" || name == "" || value == "" {
			return fmt.Errorf("%.80q: want API,API:key=value", text)
		}
		for api := range strings.SplitSeq(apis, ",") {
			switch taken := func(group string) bool {
				others, _, _ := strings.Cut(group, ":")
				return slices.Contains(strings.Split(others, ";"), api)
			}; {
			case !slices.Contains(config.APIs(), api):
				return fmt.Errorf("unknown restricted %s '%.80s'", what, api)
			case slices.ContainsFunc(t.lists[key], taken):
				return fmt.Errorf("restricted %s '%s' can not be specified in multiple config groups", what, api)
			}
		}
		t.append(key, strings.ReplaceAll(apis, ",", ";")+":"+secret)
		return nil
	}
}

// gpuLimit checks "device:fraction".
func gpuLimit(text string) error {
	device, fraction, ok := strings.Cut(text, ":")
	id, err := strconv.ParseInt(device, 10, 32)
	limit, err2 := strconv.ParseFloat(fraction, 64)
	switch {
	case !ok || err != nil || err2 != nil:
		return fmt.Errorf("%.80q: want device:fraction", text)
	case id < 0:
		return fmt.Errorf("expects device ID >= 0, got %d", id)
	case !(limit >= 0 && limit <= 1):
		return fmt.Errorf("expects limit fraction to be in range [0.0, 1.0], got %s", fraction)
	}
	return nil
}

func logVerbose(t *Triton, text string) error {
	if on, err := truthOf(text); err == nil && text != "1" && text != "0" {
		text = map[bool]string{true: "1", false: "0"}[on]
	}
	t.values["log.verbose"] = text
	return nil
}

func logFormat(t *Triton, text string) error {
	format, ok := map[string]string{"default": config.LogTriton, "ISO8601": config.LogTritonISO8601}[text]
	if !ok {
		return fmt.Errorf("want default or ISO8601, got %.40q", text)
	}
	t.values["log.format"] = format
	return nil
}

// metricsConfig reads "name=value" and "module,name=value".
func metricsConfig(t *Triton, text string) error {
	setting := text
	if module, rest, found := strings.Cut(text, ","); found && !strings.Contains(module, "=") {
		setting = rest
	}
	name, value, ok := strings.Cut(setting, "=")
	keys := map[string]string{
		"counter_latencies": "metrics.counter_latencies", "histogram_latencies": "metrics.histogram_latencies",
		"summary_latencies": "metrics.summary_latencies", "summary_quantiles": "metrics.summary_quantiles",
	}
	switch {
	case !ok:
		return fmt.Errorf("%.80q: want name=value", text)
	case keys[name] == "":
		t.note("metrics-config", fmt.Sprintf("there is no setting %.60q", name))
		return nil
	}
	value = strings.Trim(value, `"'`)
	if name == "summary_quantiles" {
		value = t.quantiles(value)
	}
	t.values[keys[name]] = value
	return nil
}

// leastError is the error of a quantile for which Triton reads 0, so that a summary stays bounded.
const leastError = "0.0001"

// quantiles reads the numbers of pairs as Triton does, up to the first character that cannot belong to them: of 0.0.1
// it reads 0.0. What is read otherwise than it is written is noted.
func (t *Triton) quantiles(text string) string {
	pairs := strings.Split(text, ",")
	for i, pair := range pairs {
		q, e, found := strings.Cut(pair, ":")
		if !found {
			continue
		}
		quantile, allowed := leadingNumber(q), leadingNumber(e)
		if n, err := strconv.ParseFloat(allowed, 64); err == nil && n == 0 {
			allowed = leastError
		}
		if read := quantile + ":" + allowed; read != pair {
			t.log(readInPart, "metrics-config", fmt.Sprintf("summary_quantiles: %.60q is read as %.60q", pair, read))
			pairs[i] = read
		}
	}
	return strings.Join(pairs, ",")
}

// leadingNumber returns the longest beginning of text that is a number; text itself when there is none.
func leadingNumber(text string) string {
	for end := min(len(text), maxNumber); end > 0; end-- {
		if _, err := strconv.ParseFloat(text[:end], 64); err == nil {
			return text[:end]
		}
	}
	return text
}

// maxNumber bounds the characters of a number in a flag.
const maxNumber = 40

func traceLevel(t *Triton, text string) error {
	level := ""
	switch strings.ToLower(text) {
	case "false", "off":
		level = "OFF"
	case "true", "on", "min", "max", "timestamps":
		level = "TIMESTAMPS"
	case "tensors":
		level = "TENSORS"
	default:
		return fmt.Errorf("invalid value for trace level option: %.40q: want OFF, TIMESTAMPS or TENSORS", text)
	}
	const key = "trace.levels"
	switch levels := t.lists[key]; {
	case slices.Contains(levels, "OFF") || slices.Contains(levels, level): // once off, it is off
	case level == "OFF":
		t.setList(key, []string{level})
	default:
		t.append(key, level)
	}
	return nil
}

// traceConfig reads "name=value", "triton,name=value" and "opentelemetry,name=value".
func traceConfig(t *Triton, text string) error {
	mode, setting, found := strings.Cut(text, ",")
	if !found || strings.Contains(mode, "=") {
		mode, setting = "", text
	}
	name, value, ok := strings.Cut(setting, "=")
	if !ok {
		return fmt.Errorf("%.80q: want name=value, triton,name=value or opentelemetry,name=value", text)
	}
	keys := map[string]string{
		",rate": "trace.rate", ",count": "trace.count", ",mode": "trace.mode",
		"triton,file": "trace.file", "triton,log-frequency": "trace.log_frequency",
		"opentelemetry,url":                       "trace.url",
		"opentelemetry,bsp_max_queue_size":        "trace.queue_size",
		"opentelemetry,bsp_max_export_batch_size": "trace.export_batch",
	}
	switch at := mode + "," + name; {
	case at == ",level":
		return traceLevel(t, value)
	case at == "opentelemetry,resource":
		t.append("trace.resource", value)
	case at == "opentelemetry,bsp_schedule_delay":
		return span("", "trace.export_delay", time.Millisecond).apply(t, value)
	case keys[at] == "":
		return errors.New("there is no setting " + strconv.Quote(setting))
	default:
		t.values[keys[at]] = value
	}
	return nil
}
