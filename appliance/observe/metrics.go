// Package observe reports what the other packages have measured: metrics, traces and log lines. No other package
// imports the libraries of Prometheus and OpenTelemetry.
package observe

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// Sample is the statistics of one version at the time of a scrape.
type Sample struct {
	Version    *edgewise.Version
	Statistics edgewise.Statistics
}

// Source is where the figures come from. Its functions are called at each scrape, concurrently with everything else.
type Source struct {
	Samples  func() []Sample          // of every ready version
	Statuses func() []edgewise.Status // of every version that a request or the configuration named
	Disk     func() (used, free int64, err error)
	Ready    func() bool
	Cache    func() CacheUsage
	GRPC     func() *GRPCUsage            // nil, or returning nil: there is no gRPC server
	Devices  func() []edgewise.DeviceInfo // nil: none are known

	Outcomes func() map[edgewise.ModelID][]edgewise.OutcomeCount // of requests, by version; nil: none are counted
	Unknown  func() uint64                                       // requests to models that do not exist
	Rollouts func() []Rollout                                    // in progress; nil: there are none
	Own      func() []Own                                        // that models make; nil: there are none

	Repositories func() []Repository // that are not on this machine; nil: there are none
	Fleet        func() *Fleet       // nil, or returns nil: the box is in none

	Latencies *Latencies // nil: none are measured
	Durations bool       // whether the cumulative times of Triton's names are on the page
	Machine   bool       // whether the use of the machine's processors and memory is
}

// GRPCUsage is what the gRPC server counts about itself.
type GRPCUsage struct {
	Connections   int // open
	InflightBytes int64
	Panics        uint64
	Calls         []GRPCCalls
}

// GRPCCalls is how many calls of a method have ended with a code.
type GRPCCalls struct {
	Method, Code string
	Count        uint64
}

// CacheUsage is how full the response cache is.
type CacheUsage struct {
	Bytes, Limit int64
	Entries      int
	Evicted      uint64 // entries removed to make room, since the start
}

// Metrics is the /metrics page: Triton's names and labels, and edgewise_ names for what Triton does not have.
type Metrics struct {
	registry *prometheus.Registry
}

// New makes the page of a source.
func New(s Source) *Metrics {
	r := prometheus.NewRegistry()
	c := &collector{source: s}
	if s.Machine {
		c.load = host.NewLoad(root)
	}
	r.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Metrics{r}
}

// Page returns the page in the Prometheus text format and its content type.
func (m *Metrics) Page() (page []byte, contentType string, err error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, "", edgewise.Errorf("observe.Page", edgewise.Internal, "gathering metrics: %w", err)
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var b bytes.Buffer
	encoder := expfmt.NewEncoder(&b, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, "", edgewise.Errorf("observe.Page", edgewise.Internal, "encoding metrics: %w", err)
		}
	}
	return decimals(b.Bytes()), string(format), nil
}

// decimals writes the values of a page without exponents, as Triton's page does: its readers look for digits.
func decimals(page []byte) []byte {
	out := make([]byte, 0, len(page))
	for line := range bytes.Lines(page) {
		at := bytes.LastIndexByte(line, ' ') + 1
		text := bytes.TrimSuffix(line[at:], []byte("\n"))
		if value, err := strconv.ParseFloat(string(text), 64); line[0] != '#' && bytes.IndexByte(text, 'e') > 0 &&
			err == nil {
			line = append(strconv.AppendFloat(append([]byte(nil), line[:at]...), value, 'f', -1, 64), '\n')
		}
		out = append(out, line...)
	}
	return out
}

// root is the folder below which the files of the kernel about the machine are.
const root = "/"

// collector makes metrics of the source's figures at each scrape.
type collector struct {
	source Source
	load   *host.Load // of the processors; nil: the machine's use is not on the page
}

// Describe sends nothing: labels depend on the models' own tags, so the collector is unchecked.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present figures.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	samples, statuses, to := c.source.Samples(), c.source.Statuses(), sink{out: out}
	for _, s := range samples {
		c.collectVersion(sinkOf(out, s.Version), s, statuses)
	}
	if c.source.Latencies != nil {
		c.source.Latencies.keep(samples)
	}
	c.collectMachine(to)
	collectStates(to, statuses)
	to.gauge("edgewise_ready", "Whether the appliance is ready.", truth(c.source.Ready()))
	cache := c.source.Cache()
	to.gauge("edgewise_response_cache_bytes", "Bytes of the responses in the cache.", float64(cache.Bytes))
	to.gauge("edgewise_response_cache_limit_bytes", "Bytes that responses in the cache may take.", float64(cache.Limit))
	to.gauge("edgewise_response_cache_entries", "Number of responses in the cache.", float64(cache.Entries))
	to.counter("edgewise_response_cache_evictions_total", "Number of responses evicted from the cache.",
		float64(cache.Evicted))
	c.collectOutcomes(to)
	c.collectGRPC(to)
	c.collectRollouts(to)
	c.collectOwn(to)
	c.collectRepositories(to)
	c.collectFleet(to)
	if c.source.Devices != nil {
		collectDevices(to, c.source.Devices())
	}
	if used, free, err := c.source.Disk(); err == nil {
		to.gauge("edgewise_store_used_bytes", "Bytes of model files in the store.", float64(used))
		to.gauge("edgewise_store_free_bytes", "Bytes free on the store's disk.", float64(free))
	}
}

// collectMachine sends Triton's gauges of the machine.
func (c *collector) collectMachine(to sink) {
	// No memory is pinned in a pool.
	to.gauge("nv_pinned_memory_pool_total_bytes", "Bytes of the pool of pinned memory.", 0)
	to.gauge("nv_pinned_memory_pool_used_bytes", "Used bytes of the pool of pinned memory.", 0)
	if c.load == nil {
		return
	}
	if load, ok := c.load.Read(); ok {
		to.gauge("nv_cpu_utilization", "Utilization of the processors since the last scrape, from 0 to 1.", load)
	}
	if total, available, ok := host.Memory(root); ok {
		to.gauge("nv_cpu_memory_total_bytes", "Memory of the machine, in bytes.", float64(total))
		to.gauge("nv_cpu_memory_used_bytes", "Used memory of the machine, in bytes.", float64(total-available))
	}
}

// collectOutcomes sends the number of requests by version, caller and outcome.
func (c *collector) collectOutcomes(to sink) {
	if c.source.Outcomes == nil {
		return
	}
	for id, counts := range c.source.Outcomes() {
		of := to.with("model", id.Name).with("version", strconv.FormatInt(id.Version, 10))
		for _, n := range counts {
			of.with("caller", n.Caller).with("outcome", n.Outcome).counter("edgewise_inference_requests_total",
				"Number of inference requests, by caller and outcome.", float64(n.Count))
		}
	}
	to.counter("edgewise_inference_unknown_model_total",
		"Number of inference requests to a model or version that does not exist.", float64(c.source.Unknown()))
}

func (c *collector) collectGRPC(to sink) {
	if c.source.GRPC == nil {
		return
	}
	usage := c.source.GRPC()
	if usage == nil {
		return
	}
	to.gauge("edgewise_grpc_connections", "Number of open gRPC connections.", float64(usage.Connections))
	to.gauge("edgewise_grpc_inflight_bytes", "Bytes of the gRPC requests in progress.", float64(usage.InflightBytes))
	to.counter("edgewise_grpc_panics_total", "Number of gRPC calls that ended in a panic.", float64(usage.Panics))
	for _, calls := range usage.Calls {
		to.with("method", calls.Method).with("code", calls.Code).counter("edgewise_grpc_calls_total",
			"Number of gRPC calls that have ended, by method and code.", float64(calls.Count))
	}
}

// failures counts failed requests by Triton's reasons. The backend of an ensemble is a step's, which counts it.
func failures(st edgewise.Statistics) map[string]uint64 {
	counts := map[string]uint64{"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}
	for i, n := range st.Failures {
		reason := "OTHER"
		switch kind := edgewise.Kind(i); kind {
		case edgewise.Busy, edgewise.Unavailable:
			reason = "REJECTED"
		case edgewise.Canceled, edgewise.Deadline:
			reason = "CANCELED"
		case edgewise.Internal, edgewise.Guest, edgewise.Exhausted, edgewise.Corrupt:
			if len(st.Steps) == 0 {
				reason = "BACKEND"
			}
		}
		counts[reason] += n
	}
	return counts
}

// collectStates counts the versions in each of the four states, and names those whose process is not started again.
func collectStates(to sink, statuses []edgewise.Status) {
	counts := map[edgewise.State]int{}
	for _, s := range statuses {
		counts[s.State]++
		if s.Fallen {
			to.with("model", s.ID.Name).with("version", strconv.FormatInt(s.ID.Version, 10)).gauge(
				"edgewise_version_quarantined", "Versions whose process died so often that it is not started again.", 1)
		}
	}
	for _, state := range []edgewise.State{
		edgewise.StateUnavailable, edgewise.StateLoading, edgewise.StateReady, edgewise.StateUnloading,
	} {
		to.with("state", state.String()).gauge("edgewise_versions", "Number of model versions in each state.",
			float64(counts[state]))
	}
}

// sink sends metrics that have the same labels.
type sink struct {
	out           chan<- prometheus.Metric
	names, values []string // of the labels
}

// with returns a sink whose metrics have one more label.
func (s sink) with(label, value string) sink {
	return sink{s.out, append(slices.Clip(s.names), label), append(slices.Clip(s.values), value)}
}

func (s sink) gauge(name, help string, value float64) {
	s.single(prometheus.GaugeValue, name, help, value)
}

func (s sink) counter(name, help string, value float64) {
	s.single(prometheus.CounterValue, name, help, value)
}

func (s sink) single(kind prometheus.ValueType, name, help string, value float64) {
	metric, err := prometheus.NewConstMetric(s.describe(name, help), kind, value, s.values...)
	s.send(metric, err, name, help)
}

func (s sink) describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, s.names, nil)
}

// send sends a metric; in place of one that could not be made, the error.
func (s sink) send(metric prometheus.Metric, err error, name, help string) {
	if err != nil {
		metric = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
	}
	s.out <- metric
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
