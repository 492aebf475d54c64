package edgewise

// Telemetry is what a device tells of itself at one moment. A nil field is one that the device does not tell: absent is
// not zero.
type Telemetry struct {
	Utilization *float64 `json:"utilization,omitempty"`         // 0 to 1: the share of time in which it was at work
	MemoryLoad  *float64 `json:"memory_load,omitempty"`         // 0 to 1: the share of time in which its memory was read or written
	Encoder     *float64 `json:"encoder,omitempty"`             // 0 to 1
	Decoder     *float64 `json:"decoder,omitempty"`             // 0 to 1
	MemoryTotal *float64 `json:"memory_total,omitempty"`        // bytes
	MemoryUsed  *float64 `json:"memory_used,omitempty"`         // bytes, by all processes together
	Temperature *float64 `json:"temperature_celsius,omitempty"` // degrees Celsius
	Power       *float64 `json:"power_watts,omitempty"`         // watts
	PowerLimit  *float64 `json:"power_limit_watts,omitempty"`   // watts
	Energy      *float64 `json:"energy_joules,omitempty"`       // joules, since the driver was loaded
	Fan         *float64 `json:"fan,omitempty"`                 // 0 to 1
	ECCErrors   *float64 `json:"ecc_errors,omitempty"`          // uncorrected memory errors since the driver was loaded
	LinkGen     *float64 `json:"link_generation,omitempty"`     // generation of the PCI Express link
	LinkWidth   *float64 `json:"link_width,omitempty"`          // lanes of it

	Clocks       map[string]float64 `json:"clocks_hertz,omitempty"`         // hertz: graphics, sm, memory
	MaxClocks    map[string]float64 `json:"max_clocks_hertz,omitempty"`     // hertz
	Temperatures map[string]float64 `json:"temperatures_celsius,omitempty"` // degrees Celsius, by zone, where there are several
	Rails        map[string]float64 `json:"rails_watts,omitempty"`          // watts, by power rail, where there are several
	Slowed       []string           `json:"slowed,omitempty"`               // why its clocks are lower than asked for, in NVML's words
	Mode         string             `json:"mode,omitempty"`                 // power mode of a Jetson; empty when it is not told
}

// Throttled tells why the device works slower than it is asked to, to save itself: too hot, too little power. Empty
// when it does not. An idle device, or one that an operator has slowed, is not throttled.
func (t *Telemetry) Throttled() string {
	if t == nil {
		return ""
	}
	for _, reason := range t.Slowed {
		switch reason {
		case "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_slowdown", "hw_power_brake_slowdown", "over_current":
			return reason
		}
	}
	return ""
}
