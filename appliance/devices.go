package appliance

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/jetson"
)

// devices is what models run on. GPUs are looked for once, by whoever asks first, in a process of their own.
type devices struct {
	cores  int
	every  time.Duration
	nvml   string
	logger *slog.Logger
	found  func() checked

	mu    sync.Mutex
	meter *gpu.Meter // nil before it watches, and when there is nothing to watch
}

func newDevices(c config.Config, logger *slog.Logger) *devices {
	d := &devices{cores: runtime.NumCPU(), every: c.GPU.TelemetryEvery, nvml: c.GPU.Telemetry, logger: logger}
	d.found = sync.OnceValue(func() checked { return d.look(c) })
	return d
}

// look looks for the runtime and for GPUs, and tells the log.
func (d *devices) look(c config.Config) checked {
	found, err := checkApart(context.Background(), c)
	if err != nil {
		found.Missing = err.Error()
		found.GPU = &gpu.Report{Reason: "looking for GPUs failed: " + err.Error()}
	}
	if found.GPU == nil {
		found.GPU = &gpu.Report{Reason: "looking for GPUs told nothing"}
	}
	if found.Missing != "" {
		d.logger.Error("no runtime for ONNX models", "error", found.Missing)
	} else {
		d.logger.Info("runtime found", "runtime", found.Runtime)
	}
	for _, device := range found.GPU.Devices {
		d.logger.Info("GPU found", "device", device.Name, "description", device.Description, "capability", device.Capability, "used", device.Used, "budget", device.Budget, "reason", device.Reason)
	}
	if found.GPU.Reason != "" {
		d.logger.Info("no GPU is used", "reason", found.GPU.Reason)
	}
	return found
}

// watch reads the telemetry of GPUs until ctx ends.
func (d *devices) watch(ctx context.Context) {
	list := d.found().GPU.Devices
	if len(list) == 0 {
		return
	}
	meter, missing := gpu.NewMeter(d.nvml, "")
	if missing != nil && d.found().GPU.Board == "" {
		d.logger.Warn("GPUs tell nothing of their load and temperature", "error", missing)
	}
	d.mu.Lock()
	d.meter = meter
	d.mu.Unlock()
	var uuids []string
	for _, device := range list {
		uuids = append(uuids, device.UUID)
	}
	meter.Watch(ctx, uuids, d.every)
}

// telemetry returns what was read last of a GPU; nil when it tells nothing.
func (d *devices) telemetry(uuid string) *edgewise.Telemetry {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.meter == nil {
		return nil
	}
	return d.meter.Last(uuid)
}

// list returns all devices, the CPU first.
func (d *devices) list() []edgewise.DeviceInfo {
	list := []edgewise.DeviceInfo{cpu(d.cores)}
	for _, device := range d.found().GPU.Devices {
		device.Device = edgewise.Device{Kind: edgewise.GPU, Index: len(list) - 1} // it does not travel between processes
		device.Telemetry = d.telemetry(device.UUID)
		list = append(list, device)
	}
	return list
}

func cpu(cores int) edgewise.DeviceInfo {
	info := edgewise.DeviceInfo{Name: "cpu", Kind: "cpu", Description: runtime.GOARCH, Used: true, Cores: cores}
	if total, available, ok := jetson.Memory("/"); ok {
		used, all := float64(total-available), float64(total)
		info.MemoryTotal, info.Telemetry = total, &edgewise.Telemetry{MemoryTotal: &all, MemoryUsed: &used}
	}
	return info
}

// usable returns the GPUs that models can run on. When there is none the error says why: the one reason.
func (d *devices) usable() ([]edgewise.DeviceInfo, error) {
	var usable []edgewise.DeviceInfo
	for _, device := range d.list() {
		if device.Used && device.Device.Kind == edgewise.GPU {
			usable = append(usable, device)
		}
	}
	if len(usable) == 0 {
		return nil, errors.New(d.found().GPU.Reason)
	}
	return usable, nil
}
