package observe

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgewise-ai/edgewise"
)

// sinkOf returns a sink with the labels of a version: its model's metric_tags, with a leading underscore, are among
// them.
func sinkOf(out chan<- prometheus.Metric, v *edgewise.Version) sink {
	to := sink{out: out}.with("model", v.ID.Name).with("version", strconv.FormatInt(v.ID.Version, 10))
	for tag, value := range v.Model.MetricTags {
		to = to.with("_"+tag, value)
	}
	return to
}

// collectVersion sends the metrics of a version: Triton's for each model, and those of what the version is made of.
func (c *collector) collectVersion(to sink, s Sample, statuses []edgewise.Status) {
	st := s.Statistics
	to.counter("nv_inference_request_success", "Number of successful inference requests.", float64(st.Success.Count))
	for reason, n := range failures(st) {
		to.with("reason", reason).counter("nv_inference_request_failure",
			"Number of failed inference requests.", float64(n))
	}
	for reason, n := range st.Closed {
		to.with("reason", reason).counter("edgewise_batches_closed_total",
			"Number of batches, by the reason for which they were closed.", float64(n))
	}
	to.counter("nv_inference_count", "Number of inferences performed.", float64(st.InferenceCount))
	to.counter("nv_inference_exec_count", "Number of model executions performed.", float64(st.ExecutionCount))
	to.gauge("nv_inference_pending_request_count", "Number of requests waiting to be executed.", float64(st.Pending))
	to.gauge("nv_model_load_duration_secs", "Load time of the model, in seconds.", loadTime(s.Version.ID, statuses))
	if c.source.Durations {
		to.micros("nv_inference_request_duration_us", "Cumulative time of requests.", st.Success)
		to.micros("nv_inference_queue_duration_us", "Cumulative queue time of requests.", st.Queue)
		to.micros("nv_inference_compute_input_duration_us", "Cumulative compute input time.", st.ComputeInput)
		to.micros("nv_inference_compute_infer_duration_us", "Cumulative compute infer time.", st.ComputeInfer)
		to.micros("nv_inference_compute_output_duration_us", "Cumulative compute output time.", st.ComputeOutput)
	}
	if c.source.Latencies != nil {
		c.source.Latencies.collect(to, s)
	}
	collectSteps(to, st.Steps)
	if cache := s.Version.Model.ResponseCache; cache != nil && cache.Enable {
		collectCache(to, st)
	}
	if st.Process != nil {
		collectProcess(to, st.Process)
	}
	if st.Sequences != nil {
		collectSequences(to, st.Sequences)
	}
	if st.Pictures > 0 {
		to.counter("edgewise_gpu_pictures_total", "Number of rows made of pictures on a GPU.", float64(st.Pictures))
	}
	if st.Guest.Created > 0 {
		collectGuests(to, st.Guest)
	}
}

func (s sink) micros(name, help string, d edgewise.Duration) {
	s.counter(name, help, float64(d.Total.Microseconds()))
}

// loadTime returns how many seconds the load of a version took.
func loadTime(id edgewise.ModelID, statuses []edgewise.Status) float64 {
	if i := slices.IndexFunc(statuses, func(s edgewise.Status) bool { return s.ID == id }); i >= 0 {
		return statuses[i].Took.Seconds()
	}
	return 0
}

// collectCache sends how requests of a version with a response cache were answered.
func collectCache(to sink, st edgewise.Statistics) {
	to.counter("nv_cache_num_hits_per_model", "Number of requests answered from the response cache.",
		float64(st.CacheHit.Count))
	to.counter("nv_cache_num_misses_per_model", "Number of requests whose responses were not in the response cache.",
		float64(st.CacheMiss.Count))
	to.micros("nv_cache_hit_duration_per_model",
		"Cumulative time of responses from the response cache, in microseconds.", st.CacheHit)
	to.micros("nv_cache_miss_duration_per_model",
		"Cumulative time of cache lookups and insertions, in microseconds.", st.CacheMiss)
}

// collectProcess sends the state of the process of a version.
func collectProcess(to sink, p *edgewise.Process) {
	to.gauge("edgewise_process_up", "Whether the version's process runs, or rests.", truth(p.PID != 0 || p.Resting))
	to.gauge("edgewise_process_resting", "Whether the version's process has given its memory to others until the next request.",
		truth(p.Resting))
	to.counter("edgewise_process_wakes_total",
		"Starts of the version's process by a request, after it had given its memory to others.", float64(p.Wakes))
	to.gauge("edgewise_process_resident_bytes", "Resident memory of the version's process, shared pages included.",
		float64(p.Resident))
	to.counter("edgewise_process_crashes_total", "Crashes of the version's process since the version was loaded.",
		float64(p.Crashes))
	to.counter("edgewise_process_copied_bytes_total",
		"Bytes of tensors copied between the appliance and the version's process.", float64(p.Copied))
}

// collectSequences sends the state of the sequences of a version.
func collectSequences(to sink, s *edgewise.SequenceStatistics) {
	to.gauge("edgewise_sequences", "Number of sequences that have a slot.", float64(s.Live))
	to.gauge("edgewise_sequence_backlog", "Number of sequences that wait for a slot.", float64(s.Backlog))
	to.gauge("edgewise_sequence_state_bytes", "Bytes of the implicit states of sequences.", float64(s.StateBytes))
	to.counter("edgewise_sequences_expired_total", "Number of sequences ended because no request came in time.",
		float64(s.Expired))
	to.counter("edgewise_sequences_restarted_total", "Number of sequences started again before their end.",
		float64(s.Restarted))
}

// collectGuests sends the statistics of a WebAssembly step's guests.
func collectGuests(to sink, g edgewise.GuestStatistics) {
	to.gauge("edgewise_guests", "Number of a step's guests.", float64(g.Instances))
	to.gauge("edgewise_guest_memory_bytes", "The most memory that a guest of the step had.", float64(g.Memory))
	to.counter("edgewise_guests_created_total", "Number of guests made since the step was loaded.", float64(g.Created))
	to.counter("edgewise_guest_fuel_total", "Units of fuel that the step's guests used.", float64(g.Fuel))
	to.counter("edgewise_guest_seconds_total", "Time in the guests' own code.", g.Time.Seconds())
	to.counter("edgewise_guest_host_seconds_total", "Time in host functions that guests called.", g.Host.Seconds())
	to.counter("edgewise_guest_bypassed_total", "Number of failed runs that were answered with their inputs.",
		float64(g.Bypassed))
	for reason, n := range map[string]uint64{"failed": g.Failed, "trapped": g.Trapped, "stopped": g.Stopped} {
		to.with("reason", reason).counter("edgewise_guest_failures_total", "Number of failed runs of a step, by reason.",
			float64(n))
	}
}

// collectSteps sends the statistics of an ensemble's steps, labelled with the step's number and model.
func collectSteps(to sink, steps []edgewise.StepStatistics) {
	for i, step := range steps {
		to := to.with("step", strconv.Itoa(i)).with("step_model", step.Model.Name).
			with("step_version", strconv.FormatInt(step.Model.Version, 10))
		for result, n := range map[string]uint64{
			"success": step.Success.Count, "failure": step.Fail.Count, "skipped": step.Skipped, "stopped": step.Stopped,
		} {
			to.with("result", result).counter("edgewise_ensemble_step_requests_total",
				"Number of requests of an ensemble that reached a step, by result.", float64(n))
		}
		to.counter("edgewise_ensemble_step_seconds_total",
			"Cumulative time of successful requests in a step, from the request to its model to the response.",
			step.Success.Total.Seconds())
		to.counter("edgewise_ensemble_step_wait_seconds_total",
			"Cumulative time of waiting for room under max_inflight_requests.", step.Wait.Total.Seconds())
		to.counter("edgewise_ensemble_step_rows_total", "Number of rows that fan-outs sent to a step's model.",
			float64(step.Rows))
	}
}
