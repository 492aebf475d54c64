package edgewise

// DeviceInfo is what the box knows of a device. Its JSON form stands in the answers of the administration API.
type DeviceInfo struct {
	Device      Device `json:"-"`
	Name        string `json:"name"` // "cpu" or "gpu:0"
	Kind        string `json:"kind"` // "cpu" or "gpu"
	Description string `json:"description"`

	Used       bool   `json:"used"`             // whether models can run on it
	Reason     string `json:"reason,omitempty"` // the one reason why not
	Capability string `json:"compute_capability,omitempty"`
	UUID       string `json:"uuid,omitempty"`
	BusID      string `json:"bus_id,omitempty"`
	Integrated bool   `json:"integrated,omitempty"` // it works in the memory of the CPU
	Cores      int    `json:"cores,omitempty"`      // of a CPU; of a GPU its multiprocessors

	MemoryTotal int64 `json:"memory_total,omitempty"`  // bytes
	Budget      int64 `json:"memory_budget,omitempty"` // bytes that models may take together

	Telemetry *Telemetry `json:"telemetry,omitempty"` // nil: it tells nothing
}
