package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgewise-ai/edgewise"
)

// collectDevices sends what devices tell: under Triton's names for GPUs with Triton's one label, and under the box's
// own. What a device does not tell is not sent.
func collectDevices(out chan<- prometheus.Metric, list []edgewise.DeviceInfo) {
	for i := range list {
		d := &list[i]
		names, values := []string{"device", "gpu_uuid"}, []string{d.Name, d.UUID}
		used := 0.0
		if d.Used {
			used = 1
		}
		send(out, prometheus.GaugeValue, "edgewise_device_used", "Whether models can run on the device.", used, names, values)
		if d.Device.Kind != edgewise.GPU {
			continue
		}
		send(out, prometheus.GaugeValue, "edgewise_device_memory_budget_bytes",
			"Bytes of the device's memory that models may take together.", float64(d.Budget), names, values)
		if t := d.Telemetry; t != nil {
			collectTriton(out, d.UUID, t)
			collectTelemetry(out, names, values, t)
		}
	}
}

// optional sends a value that there is.
func optional(out chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, v *float64, names,
	values []string,
) {
	if v != nil {
		send(out, kind, name, help, *v, names, values)
	}
}

func collectTriton(out chan<- prometheus.Metric, uuid string, t *edgewise.Telemetry) {
	names, values := []string{"gpu_uuid"}, []string{uuid}
	optional(out, prometheus.GaugeValue, "nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", t.Utilization, names,
		values)
	optional(out, prometheus.GaugeValue, "nv_gpu_memory_total_bytes", "GPU total memory, in bytes", t.MemoryTotal, names,
		values)
	optional(out, prometheus.GaugeValue, "nv_gpu_memory_used_bytes", "GPU used memory, in bytes", t.MemoryUsed, names,
		values)
	optional(out, prometheus.GaugeValue, "nv_gpu_power_usage", "GPU power usage in watts", t.Power, names, values)
	optional(out, prometheus.GaugeValue, "nv_gpu_power_limit", "GPU power management limit in watts", t.PowerLimit, names,
		values)
	optional(out, prometheus.CounterValue, "nv_energy_consumption", "GPU energy consumption in joules since the Triton "+
		"Server started", t.Energy, names, values)
}

func collectTelemetry(out chan<- prometheus.Metric, names, values []string, t *edgewise.Telemetry) {
	gauge := func(name, help string, v *float64) {
		optional(out, prometheus.GaugeValue, name, help, v, names, values)
	}
	gauge("edgewise_device_memory_load", "Share of time in which the device's memory was read or written.", t.MemoryLoad)
	gauge("edgewise_device_encoder_load", "Load of the device's video encoder.", t.Encoder)
	gauge("edgewise_device_decoder_load", "Load of the device's video decoder.", t.Decoder)
	gauge("edgewise_device_temperature_celsius", "Temperature of the device.", t.Temperature)
	gauge("edgewise_device_fan_ratio", "Speed of the device's fan.", t.Fan)
	gauge("edgewise_device_link_generation", "Generation of the device's PCI Express link.", t.LinkGen)
	gauge("edgewise_device_link_lanes", "Lanes of the device's PCI Express link.", t.LinkWidth)
	optional(out, prometheus.CounterValue, "edgewise_device_ecc_errors_total",
		"Number of memory errors that were not corrected.", t.ECCErrors, names, values)
	each := func(name, help, label string, m map[string]float64) {
		for key, v := range m {
			send(out, prometheus.GaugeValue, name, help, v, append(names[:len(names):len(names)], label),
				append(values[:len(values):len(values)], key))
		}
	}
	each("edgewise_device_clock_hertz", "Clock of a part of the device.", "clock", t.Clocks)
	each("edgewise_device_clock_limit_hertz", "Highest clock of a part of the device.", "clock", t.MaxClocks)
	each("edgewise_device_zone_temperature_celsius", "Temperature of a part of the board.", "zone", t.Temperatures)
	each("edgewise_device_rail_watts", "Power on a rail of the board.", "rail", t.Rails)
	for _, reason := range t.Slowed {
		send(out, prometheus.GaugeValue, "edgewise_device_slowed", "Why the device's clocks are lower than they could be; "+
			"absent: they are not.", 1, append(names[:len(names):len(names)], "reason"),
			append(values[:len(values):len(values)], reason))
	}
	if t.Mode != "" {
		send(out, prometheus.GaugeValue, "edgewise_device_power_mode", "Power mode of the board.", 1,
			append(names[:len(names):len(names)], "mode"), append(values[:len(values):len(values)], t.Mode))
	}
}
