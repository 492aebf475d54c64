package serving

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/compiled"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/host"
)

// Hardware is what models run on. GPUs are looked for once, by the first caller, in a process of their own. Its
// methods are safe for concurrent use.
type Hardware struct {
	cores  int
	every  time.Duration
	nvml   string
	logger *slog.Logger
	found  func() Report

	environment []string // of what uses the GPUs of CUDA
	compiled    *compiled.Cache

	mu     sync.Mutex // guards what follows
	meter  *gpu.Meter // nil before it watches, and when there is nothing to watch
	losses map[edgewise.Device]loss
}

// loss is what has happened to the processes on a device.
type loss struct {
	count int
	last  time.Time
	cause string
}

// died notes that a process on a device has died.
func (d *Hardware) died(on edgewise.Device, cause string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.losses == nil {
		d.losses = map[edgewise.Device]loss{}
	}
	d.losses[on] = loss{d.losses[on].count + 1, time.Now(), cause}
}

// lossOf returns what has happened on a device; the zero value when nothing has.
func (d *Hardware) lossOf(on edgewise.Device) loss {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.losses[on]
}

// NewHardware makes what looks for the hardware that c allows models to use. It does not look yet.
func NewHardware(c config.Config, logger *slog.Logger) *Hardware {
	d := &Hardware{
		cores: runtime.NumCPU(), every: c.GPU.TelemetryEvery, nvml: c.GPU.Telemetry, logger: logger,
		environment: gpuEnvironment(c), compiled: newCompiled(c, logger),
	}
	d.found = sync.OnceValue(func() Report { return d.look(c) })
	return d
}

// Find looks for the runtime and for GPUs, unless that has been done, and waits for it.
func (d *Hardware) Find() { d.found() }

// look looks for them and logs what it found.
func (d *Hardware) look(c config.Config) Report {
	found, err := Probe(context.Background(), c)
	if err != nil {
		found.Missing = err.Error()
		found.GPU.Reason = "looking for GPUs failed: " + err.Error()
	}
	if found.Missing != "" {
		d.logger.Error("no runtime for ONNX models", "error", found.Missing)
	} else {
		d.logger.Info("runtime found", "runtime", found.Runtime)
	}
	for _, device := range found.GPU.Devices {
		d.logger.Info("GPU found", "device", device.Name, "description", device.Description, "capability", device.Capability,
			"driver", device.Driver, "used", device.Used, "budget", device.Budget, "reason", device.Reason)
	}
	if found.GPU.Reason != "" {
		d.logger.Info("no GPU is used", "reason", found.GPU.Reason)
	}
	d.compiled.Prune(found.makers())
	return found
}

// Watch reads the telemetry of GPUs until ctx ends.
func (d *Hardware) Watch(ctx context.Context) {
	list := d.found().GPU.Devices
	if len(list) == 0 {
		return
	}
	meter, missing := gpu.NewMeter(d.nvml, "")
	if missing != nil && d.found().GPU.Board == "" && list[0].Device.Kind == edgewise.GPU {
		d.logger.Warn("GPUs tell nothing of their load and temperature", "error", missing)
	}
	d.mu.Lock()
	d.meter = meter
	d.mu.Unlock()
	meter.Watch(ctx, list, d.every)
}

// telemetry returns what was read last of a device; nil when it tells nothing.
func (d *Hardware) telemetry(on edgewise.Device) *edgewise.Telemetry {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.meter == nil {
		return nil
	}
	return d.meter.Last(on)
}

// telemetryNow reads the telemetry of a device; nil when it tells nothing.
func (d *Hardware) telemetryNow(of edgewise.DeviceInfo) *edgewise.Telemetry {
	d.mu.Lock()
	meter := d.meter
	d.mu.Unlock()
	if meter == nil {
		return nil
	}
	return meter.Now(of)
}

// List returns all devices, the CPU first.
func (d *Hardware) List() []edgewise.DeviceInfo {
	list := []edgewise.DeviceInfo{cpu(d.cores)}
	for _, device := range d.found().GPU.Devices {
		device.Telemetry = d.telemetry(device.Device)
		lost := d.lossOf(device.Device)
		device.Losses, device.LastLoss, device.Loss = lost.count, lost.last, lost.cause
		list = append(list, device)
	}
	return list
}

func cpu(cores int) edgewise.DeviceInfo {
	info := edgewise.DeviceInfo{Name: "cpu", Kind: "cpu", Description: runtime.GOARCH, Used: true, Cores: cores}
	if total, available, ok := host.Memory("/"); ok {
		used, all := float64(total-available), float64(total)
		info.MemoryTotal, info.Telemetry = total, &edgewise.Telemetry{MemoryTotal: &all, MemoryUsed: &used}
	}
	return info
}

// Usable returns the devices beside the CPU that models can run on. When there is none the error says why.
func (d *Hardware) Usable() ([]edgewise.DeviceInfo, error) {
	var usable []edgewise.DeviceInfo
	for _, device := range d.List() {
		if device.Used && device.Device.Kind != edgewise.CPU {
			usable = append(usable, device)
		}
	}
	if len(usable) == 0 {
		return nil, errors.New(d.found().GPU.Reason)
	}
	return usable, nil
}

// Slowed returns why a GPU is throttled; empty when it is not, or does not tell.
func (d *Hardware) Slowed(on edgewise.Device) string {
	for _, info := range d.List() {
		if info.Device == on {
			return info.Telemetry.Throttled()
		}
	}
	return ""
}

// Identity describes the processor and the runtime.
func (d *Hardware) Identity() []string {
	return []string{cmp.Or(host.Processor("/"), runtime.GOARCH), d.found().Runtime}
}
