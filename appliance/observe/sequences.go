package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgewise-ai/edgewise"
)

// collectSequences sends what is known of the sequences of a version.
func collectSequences(out chan<- prometheus.Metric, s edgewise.SequenceStatistics, names, values []string) {
	gauge := func(name, help string, v float64) { send(out, prometheus.GaugeValue, name, help, v, names, values) }
	counter := func(name, help string, v float64) {
		send(out, prometheus.CounterValue, name, help, v, names, values)
	}
	gauge("edgewise_sequences", "Number of sequences that have a slot.", float64(s.Live))
	gauge("edgewise_sequence_backlog", "Number of sequences that wait for a slot.", float64(s.Backlog))
	gauge("edgewise_sequence_state_bytes", "Bytes of the implicit states of sequences.", float64(s.StateBytes))
	counter("edgewise_sequences_expired_total", "Number of sequences that were forgotten because nothing came for "+
		"too long.", float64(s.Expired))
	counter("edgewise_sequences_restarted_total", "Number of sequences that were started again before their end.",
		float64(s.Restarted))
}
