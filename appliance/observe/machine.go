package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgewise-ai/edgewise/host"
)

// machine sends Triton's gauges of the machine.
type machine struct {
	root string
	load *host.Load
}

func newMachine(root string) *machine { return &machine{root, host.NewLoad(root)} }

// collect sends what can be read.
func (m *machine) collect(out chan<- prometheus.Metric) {
	if load, ok := m.load.Read(); ok {
		send(out, prometheus.GaugeValue, "nv_cpu_utilization",
			"Use of the processors since the page was read last, from 0 to 1.", load, nil, nil)
	}
	if total, available, ok := host.Memory(m.root); ok {
		send(out, prometheus.GaugeValue, "nv_cpu_memory_total_bytes", "Memory of the machine, in bytes.", float64(total),
			nil, nil)
		send(out, prometheus.GaugeValue, "nv_cpu_memory_used_bytes", "Used memory of the machine, in bytes.",
			float64(total-available), nil, nil)
	}
}
