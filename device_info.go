package edgewise

import "time"

// DeviceInfo is what the box knows of a device. As JSON it comes from the processes that look for devices.
type DeviceInfo struct {
	Device      Device `json:"device"`
	Name        string `json:"name"` // "cpu", "gpu:0" or "vulkan:0"
	Kind        string `json:"kind"` // "cpu", "gpu" or "vulkan"
	Description string `json:"description"`
	Vendor      string `json:"vendor,omitempty"` // of a Vulkan device
	Type        string `json:"type,omitempty"`   // of a Vulkan device: integrated, discrete, virtual or software
	Driver      string `json:"driver,omitempty"` // what drives it, with its version

	Used       bool   `json:"used"`             // whether models can run on it
	Reason     string `json:"reason,omitempty"` // the one reason why not
	Capability string `json:"compute_capability,omitempty"`
	UUID       string `json:"uuid,omitempty"`
	BusID      string `json:"bus_id,omitempty"`
	Integrated bool   `json:"integrated,omitempty"` // it works in the memory of the CPU
	Cores      int    `json:"cores,omitempty"`      // of a CPU; of a GPU its multiprocessors

	MemoryTotal int64 `json:"memory_total,omitempty"`  // bytes
	Budget      int64 `json:"memory_budget,omitempty"` // bytes that models may take together

	Losses   int       `json:"losses,omitempty"`   // how often a process on it has died since the start of the box
	LastLoss time.Time `json:"last_loss,omitzero"` // when that was
	Loss     string    `json:"loss,omitempty"`     // its cause

	Telemetry *Telemetry `json:"telemetry,omitempty"` // nil: it tells nothing
}
