package observe

import "github.com/edgewise-ai/edgewise"

// collectDevices sends the telemetry of devices: that of GPUs under Triton's names with Triton's one label, and all of
// it under names of our own. Values that a device does not report are not sent.
func collectDevices(to sink, list []edgewise.DeviceInfo) {
	for i := range list {
		d := &list[i]
		gpu := to.with("gpu_uuid", d.UUID) // Triton's one label
		device := gpu.with("device", d.Name)
		device.gauge("edgewise_device_used", "Whether models can run on the device.", truth(d.Used))
		if d.Device.Kind == edgewise.CPU {
			continue
		}
		device.counter("edgewise_device_losses_total",
			"Number of processes of models on the device that died since the start.", float64(d.Losses))
		device.gauge("edgewise_device_memory_budget_bytes",
			"Bytes of the device's memory that models may take together.", float64(d.Budget))
		if t := d.Telemetry; t != nil {
			collectTelemetry(gpu, device, t)
			collectParts(device, t)
		}
	}
}

// collectTelemetry sends the values that a device has once.
func collectTelemetry(gpu, device sink, t *edgewise.Telemetry) {
	for _, m := range []struct {
		send       func(name, help string, value float64)
		name, help string
		value      *float64
	}{
		{gpu.gauge, "nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", t.Utilization},
		{gpu.gauge, "nv_gpu_memory_total_bytes", "GPU total memory, in bytes", t.MemoryTotal},
		{gpu.gauge, "nv_gpu_memory_used_bytes", "GPU used memory, in bytes", t.MemoryUsed},
		{gpu.gauge, "nv_gpu_power_usage", "GPU power usage in watts", t.Power},
		{gpu.gauge, "nv_gpu_power_limit", "GPU power management limit in watts", t.PowerLimit},
		{
			gpu.counter, "nv_energy_consumption",
			"GPU energy consumption in joules since the Triton Server started", t.Energy,
		},
		{device.gauge, "edgewise_device_memory_load", "Share of time in which the memory was read or written.", t.MemoryLoad},
		{device.gauge, "edgewise_device_encoder_load", "Load of the device's video encoder.", t.Encoder},
		{device.gauge, "edgewise_device_decoder_load", "Load of the device's video decoder.", t.Decoder},
		{device.gauge, "edgewise_device_temperature_celsius", "Temperature of the device.", t.Temperature},
		{device.gauge, "edgewise_device_fan_ratio", "Speed of the device's fan.", t.Fan},
		{device.gauge, "edgewise_device_link_generation", "Generation of the device's PCI Express link.", t.LinkGen},
		{device.gauge, "edgewise_device_link_lanes", "Lanes of the device's PCI Express link.", t.LinkWidth},
		{device.counter, "edgewise_device_ecc_errors_total", "Number of memory errors not corrected.", t.ECCErrors},
	} {
		if m.value != nil {
			m.send(m.name, m.help, *m.value)
		}
	}
}

// collectParts sends the values of the parts of a device, each with a label of its own.
func collectParts(device sink, t *edgewise.Telemetry) {
	for _, m := range []struct {
		name, help, label string
		values            map[string]float64
	}{
		{"edgewise_device_clock_hertz", "Clock of a part of the device.", "clock", t.Clocks},
		{"edgewise_device_clock_limit_hertz", "Highest clock of a part of the device.", "clock", t.MaxClocks},
		{"edgewise_device_zone_temperature_celsius", "Temperature of a part of the board.", "zone", t.Temperatures},
		{"edgewise_device_rail_watts", "Power on a rail of the board.", "rail", t.Rails},
	} {
		for part, value := range m.values {
			device.with(m.label, part).gauge(m.name, m.help, value)
		}
	}
	for _, reason := range t.Slowed {
		device.with("reason", reason).gauge("edgewise_device_slowed",
			"Why the device's clocks are throttled; absent: they are not.", 1)
	}
	if t.Mode != "" {
		device.with("mode", t.Mode).gauge("edgewise_device_power_mode", "Power mode of the board.", 1)
	}
}
