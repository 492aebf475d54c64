// Package observe reports what the parts have measured. Nothing measures here, and nothing but this package knows the
// metrics library.
package observe

import (
	"bytes"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/edgewise-ai/edgewise"
)

// Sample is what is known of one version at the moment of a scrape.
type Sample struct {
	Version    *edgewise.Version
	Statistics edgewise.Statistics
}

// Source is where the figures come from. Its functions are called at each scrape, concurrently with everything else.
type Source struct {
	Samples  func() []Sample          // of every ready version
	Statuses func() []edgewise.Status // of every version that was asked for
	Disk     func() (used, free int64, err error)
	Ready    func() bool
	Cache    func() CacheUsage
	GRPC     func() *GRPCUsage            // nil, or returning nil: there is no gRPC server
	Devices  func() []edgewise.DeviceInfo // nil: none are known

	Outcomes func() map[edgewise.ModelID][]edgewise.OutcomeCount // of requests, by version; nil: none are counted
	Unknown  func() uint64                                       // requests to models that do not exist

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
	Evicted      uint64 // entries that had to make room, since the start
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
		c.machine = newMachine("/")
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

// collector makes metrics of the source's figures when it is asked for them.
type collector struct {
	source  Source
	machine *machine // nil: it is not looked at
}

// Describe sends nothing: labels depend on the models' own tags, so the collector is unchecked.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the figures of this moment.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	samples := c.source.Samples()
	for _, s := range samples {
		c.collectVersion(out, s)
	}
	if c.source.Latencies != nil {
		c.source.Latencies.keep(samples)
	}
	if c.machine != nil {
		c.machine.collect(out)
	}
	// There is no such pool: tensors are pinned by nobody.
	send(out, prometheus.GaugeValue, "nv_pinned_memory_pool_total_bytes", "Bytes of the pool of pinned memory.", 0, nil,
		nil)
	send(out, prometheus.GaugeValue, "nv_pinned_memory_pool_used_bytes", "Used bytes of the pool of pinned memory.", 0,
		nil, nil)
	statuses := c.source.Statuses()
	collectLoads(out, samples, statuses)
	collectStates(out, statuses)
	collectFallen(out, statuses)
	send(out, prometheus.GaugeValue, "edgewise_ready", "Whether the box is ready.", truth(c.source.Ready()), nil, nil)
	cache := c.source.Cache()
	send(out, prometheus.GaugeValue, "edgewise_response_cache_bytes", "Bytes of kept answers.", float64(cache.Bytes), nil,
		nil)
	send(out, prometheus.GaugeValue, "edgewise_response_cache_limit_bytes", "Bytes that kept answers may take.",
		float64(cache.Limit), nil, nil)
	send(out, prometheus.GaugeValue, "edgewise_response_cache_entries", "Number of kept answers.", float64(cache.Entries),
		nil, nil)
	send(out, prometheus.CounterValue, "edgewise_response_cache_evictions_total",
		"Number of kept answers that made room for others.", float64(cache.Evicted), nil, nil)
	c.collectOutcomes(out)
	c.collectGRPC(out)
	if c.source.Devices != nil {
		collectDevices(out, c.source.Devices())
	}
	if used, free, err := c.source.Disk(); err == nil {
		send(out, prometheus.GaugeValue, "edgewise_store_used_bytes", "Bytes of model files in the store.", float64(used),
			nil, nil)
		send(out, prometheus.GaugeValue, "edgewise_store_free_bytes", "Bytes free on the store's disk.", float64(free), nil,
			nil)
	}
}

// collectOutcomes sends how requests ended, by version and caller.
func (c *collector) collectOutcomes(out chan<- prometheus.Metric) {
	if c.source.Outcomes == nil {
		return
	}
	names := []string{"model", "version", "caller", "outcome"}
	for id, counts := range c.source.Outcomes() {
		for _, n := range counts {
			send(out, prometheus.CounterValue, "edgewise_inference_requests_total",
				"Number of inference requests, by who made them and how they ended.", float64(n.Count),
				names, []string{id.Name, strconv.FormatInt(id.Version, 10), n.Caller, n.Outcome})
		}
	}
	send(out, prometheus.CounterValue, "edgewise_inference_unknown_model_total",
		"Number of inference requests to a model or version that does not exist.", float64(c.source.Unknown()), nil, nil)
}

func (c *collector) collectGRPC(out chan<- prometheus.Metric) {
	if c.source.GRPC == nil {
		return
	}
	usage := c.source.GRPC()
	if usage == nil {
		return
	}
	send(out, prometheus.GaugeValue, "edgewise_grpc_connections", "Number of open gRPC connections.",
		float64(usage.Connections), nil, nil)
	send(out, prometheus.GaugeValue, "edgewise_grpc_inflight_bytes", "Bytes of the gRPC requests that are being answered.",
		float64(usage.InflightBytes), nil, nil)
	send(out, prometheus.CounterValue, "edgewise_grpc_panics_total", "Number of gRPC calls that ended in a panic.",
		float64(usage.Panics), nil, nil)
	for _, calls := range usage.Calls {
		send(out, prometheus.CounterValue, "edgewise_grpc_calls_total", "Number of gRPC calls that have ended, by method "+
			"and code.", float64(calls.Count), []string{"method", "code"}, []string{calls.Method, calls.Code})
	}
}

// collectVersion sends Triton's per-model metrics.
func (c *collector) collectVersion(out chan<- prometheus.Metric, s Sample) {
	names, values := labelsOf(s.Version)
	st := s.Statistics
	counter := func(name, help string, v float64) { send(out, prometheus.CounterValue, name, help, v, names, values) }
	micros := func(name, help string, d edgewise.Duration) { counter(name, help, float64(d.Total.Microseconds())) }
	counter("nv_inference_request_success", "Number of successful inference requests.", float64(st.Success.Count))
	for reason, n := range st.Failures {
		send(out, prometheus.CounterValue, "nv_inference_request_failure", "Number of failed inference requests.", float64(n),
			append(names[:len(names):len(names)], "reason"),
			append(values[:len(values):len(values)], edgewise.FailureReason(reason).String()))
	}
	for reason, n := range st.Closed {
		send(out, prometheus.CounterValue, "edgewise_batches_closed_total", "Number of batches, by why they took no more "+
			"requests.", float64(n),
			append(names[:len(names):len(names)], "reason"),
			append(values[:len(values):len(values)], edgewise.CloseReason(reason).String()))
	}
	counter("nv_inference_count", "Number of inferences performed.", float64(st.InferenceCount))
	counter("nv_inference_exec_count", "Number of model executions performed.", float64(st.ExecutionCount))
	send(out, prometheus.GaugeValue, "nv_inference_pending_request_count", "Number of requests waiting to be executed.",
		float64(st.Pending), names, values)
	if c.source.Durations {
		collectDurations(micros, st)
	}
	if c.source.Latencies != nil {
		c.source.Latencies.collect(out, s, names, values)
	}
	collectSteps(out, st.Steps, names, values)
	if cache := s.Version.Model.ResponseCache; cache != nil && cache.Enable {
		counter("nv_cache_num_hits_per_model", "Number of requests answered from the response cache.",
			float64(st.CacheHit.Count))
		counter("nv_cache_num_misses_per_model", "Number of requests whose answers were not in the response cache.",
			float64(st.CacheMiss.Count))
		micros("nv_cache_hit_duration_per_model", "Cumulative time of answering from the response cache, in microseconds.",
			st.CacheHit)
		micros("nv_cache_miss_duration_per_model", "Cumulative time of looking up and keeping answers, in microseconds.",
			st.CacheMiss)
	}
	if p := st.Process; p != nil {
		collectProcess(out, p, names, values)
	}
	if st.Sequences != nil {
		collectSequences(out, *st.Sequences, names, values)
	}
	if st.Pictures > 0 {
		counter("edgewise_gpu_pictures_total", "Number of rows that were made of pictures on a GPU.", float64(st.Pictures))
	}
	if st.Guest.Created > 0 {
		collectGuests(out, st.Guest, names, values)
	}
}

// labelsOf are a version's labels: its model's metric_tags with a leading underscore among them.
func labelsOf(v *edgewise.Version) (names, values []string) {
	names, values = []string{"model", "version"}, []string{v.ID.Name, strconv.FormatInt(v.ID.Version, 10)}
	for tag, value := range v.Model.MetricTags {
		names, values = append(names, "_"+tag), append(values, value)
	}
	return names, values
}

// collectDurations sends the cumulative times.
func collectDurations(micros func(name, help string, d edgewise.Duration), st edgewise.Statistics) {
	micros("nv_inference_request_duration_us", "Cumulative time of requests.", st.Success)
	micros("nv_inference_queue_duration_us", "Cumulative time of requests in the queue.", st.Queue)
	micros("nv_inference_compute_input_duration_us", "Cumulative time of preparing inputs.", st.ComputeInput)
	micros("nv_inference_compute_infer_duration_us", "Cumulative time of running.", st.ComputeInfer)
	micros("nv_inference_compute_output_duration_us", "Cumulative time of taking outputs out.", st.ComputeOutput)
}

// collectLoads sends how long the ready versions took to load.
func collectLoads(out chan<- prometheus.Metric, samples []Sample, statuses []edgewise.Status) {
	took := make(map[edgewise.ModelID]edgewise.Status, len(statuses))
	for _, s := range statuses {
		took[s.ID] = s
	}
	for _, s := range samples {
		names, values := labelsOf(s.Version)
		send(out, prometheus.GaugeValue, "nv_model_load_duration_secs", "Time that the load of the model took, in seconds.",
			took[s.Version.ID].Took.Seconds(), names, values)
	}
}

// collectProcess sends what is known of a version's own process.
func collectProcess(out chan<- prometheus.Metric, p *edgewise.Process, names, values []string) {
	gauge := func(name, help string, v float64) { send(out, prometheus.GaugeValue, name, help, v, names, values) }
	gauge("edgewise_process_up", "Whether the version's process runs.", truth(p.PID != 0))
	gauge("edgewise_process_resident_bytes", "Resident memory of the version's process, shared pages included.",
		float64(p.Resident))
	send(out, prometheus.CounterValue, "edgewise_process_crashes_total", "Deaths of the version's process since it "+
		"was loaded.", float64(p.Crashes), names, values)
	send(out, prometheus.CounterValue, "edgewise_process_copied_bytes_total",
		"Bytes of tensors copied between the box and the version's process.", float64(p.Copied), names, values)
}

// collectSteps sends what an ensemble has measured of its steps, labelled with the step's number and model.
func collectSteps(out chan<- prometheus.Metric, steps []edgewise.StepStatistics, names, values []string) {
	names = append(names[:len(names):len(names)], "step", "step_model", "step_version", "result")
	for i, step := range steps {
		values := append(values[:len(values):len(values)], strconv.Itoa(i), step.Model.Name,
			strconv.FormatInt(step.Model.Version, 10), "")
		count := func(result string, n uint64) {
			values[len(values)-1] = result
			send(out, prometheus.CounterValue, "edgewise_ensemble_step_requests_total",
				"Number of requests of an ensemble that came to a step, by what became of them there.", float64(n), names, values)
		}
		count("success", step.Success.Count)
		count("failure", step.Fail.Count)
		count("skipped", step.Skipped)
		count("stopped", step.Stopped)
		values, names := values[:len(values)-1], names[:len(names)-1]
		send(out, prometheus.CounterValue, "edgewise_ensemble_step_seconds_total",
			"Cumulative time of successful requests in a step, from asking its model to the answer.",
			step.Success.Total.Seconds(), names, values)
		send(out, prometheus.CounterValue, "edgewise_ensemble_step_wait_seconds_total",
			"Cumulative time of waiting for room under max_inflight_requests.", step.Wait.Total.Seconds(), names, values)
		send(out, prometheus.CounterValue, "edgewise_ensemble_step_rows_total",
			"Number of rows that fan-outs asked a step's model about.", float64(step.Rows), names, values)
	}
}

// collectStates counts versions in each state; all four states are always there.
func collectStates(out chan<- prometheus.Metric, statuses []edgewise.Status) {
	states := []edgewise.State{
		edgewise.StateUnavailable, edgewise.StateLoading, edgewise.StateReady,
		edgewise.StateUnloading,
	}
	for _, state := range states {
		n := 0
		for _, s := range statuses {
			if s.State == state {
				n++
			}
		}
		send(out, prometheus.GaugeValue, "edgewise_versions", "Number of model versions in each state.", float64(n),
			[]string{"state"}, []string{state.String()})
	}
}

// collectFallen names the versions whose process is down for good.
func collectFallen(out chan<- prometheus.Metric, statuses []edgewise.Status) {
	for _, s := range statuses {
		if s.Fallen {
			send(out, prometheus.GaugeValue, "edgewise_version_quarantined", "Versions whose process has died so often that "+
				"it is not started again.", 1,
				[]string{"model", "version"}, []string{s.ID.Name, strconv.FormatInt(s.ID.Version, 10)})
		}
	}
}

func send(out chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, value float64, names,
	values []string,
) {
	metric, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
	}
	out <- metric
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
