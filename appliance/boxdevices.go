package appliance

import (
	"runtime"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/host"
)

// machineMemory returns the memory of the machine, and what this process has resident.
func machineMemory() admin.Memory {
	var m admin.Memory
	m.Total, m.Available, _ = host.Memory("/")
	m.Box, _ = host.ProcessBytes("/", 0, host.Resident)
	return m
}

// cpu returns the number of cores, and their load when the watch read it last.
func (a *App) cpu() admin.CPU { return admin.CPU{Cores: runtime.NumCPU(), Load: a.processors.Last()} }

// Devices lists what models run on: the CPU, then the GPUs that were found, also those that are not used.
func (b *box) Devices() []admin.Device {
	memory, cpu := machineMemory(), b.app.cpu()
	used := memory.Total - memory.Available
	first := admin.Device{
		Name: edgewise.Device{}.String(), Kind: "cpu", Description: host.Processor("/"), Cores: cpu.Cores, Load: &cpu.Load,
		MemoryTotal: memory.Total, MemoryUsed: &used, Models: []edgewise.ModelID{}, Used: true,
	}
	list := []admin.Device{}
	var elsewhere []edgewise.ModelID
	for _, info := range b.app.hardware.List()[1:] {
		d := gpuDevice(info)
		d.Models = b.app.serving.ModelsOn(info.Device)
		elsewhere = append(elsewhere, d.Models...)
		list = append(list, d)
	}
	for _, s := range b.app.manager.Statuses() {
		if s.State == edgewise.StateReady && !slices.Contains(elsewhere, s.ID) {
			first.Models = append(first.Models, s.ID)
		}
	}
	return append([]admin.Device{first}, list...)
}

func gpuDevice(info edgewise.DeviceInfo) admin.Device {
	d := admin.Device{
		Name: info.Name, Kind: info.Kind, Description: info.Description, Cores: info.Cores, MemoryTotal: info.MemoryTotal,
		Used: info.Used, Reason: info.Reason, Capability: info.Capability, MemoryBudget: info.Budget, Telemetry: info.Telemetry,
	}
	if t := info.Telemetry; t != nil {
		d.Load = t.Utilization
		if t.MemoryUsed != nil {
			used := int64(*t.MemoryUsed)
			d.MemoryUsed = &used
		}
	}
	return d
}
