package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgewise-ai/edgewise"
)

// collectGuests sends what was measured of a WebAssembly step's guests.
func collectGuests(out chan<- prometheus.Metric, g edgewise.GuestStatistics, names, values []string) {
	gauge := func(name, help string, v float64) { send(out, prometheus.GaugeValue, name, help, v, names, values) }
	counter := func(name, help string, v float64) {
		send(out, prometheus.CounterValue, name, help, v, names, values)
	}
	gauge("edgewise_guests", "Number of a step's guests.", float64(g.Instances))
	gauge("edgewise_guest_memory_bytes", "The most memory that a guest of the step had.", float64(g.Memory))
	counter("edgewise_guests_created_total", "Number of guests made since the step was loaded.", float64(g.Created))
	counter("edgewise_guest_fuel_total", "Units of fuel that the step's guests used.", float64(g.Fuel))
	counter("edgewise_guest_seconds_total", "Time in the guests' own code.", g.Time.Seconds())
	counter("edgewise_guest_host_seconds_total", "Time in what guests called in the box.", g.Host.Seconds())
	counter("edgewise_guest_bypassed_total", "Number of failed runs that were answered with their inputs.",
		float64(g.Bypassed))
	names = append(names[:len(names):len(names)], "reason")
	for reason, n := range map[string]uint64{"failed": g.Failed, "trapped": g.Trapped, "stopped": g.Stopped} {
		send(out, prometheus.CounterValue, "edgewise_guest_failures_total", "Number of runs that a step failed, by how.",
			float64(n), names, append(values[:len(values):len(values)], reason))
	}
}
