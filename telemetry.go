package edgewise

// Telemetry is what a device tells of itself at one moment. A nil field is one that the device does not tell: absent is not
// zero.
type Telemetry struct {
	Utilization *float64 // 0 to 1: the share of time in which it was at work
	MemoryLoad  *float64 // 0 to 1: the share of time in which its memory was read or written
	Encoder     *float64 // 0 to 1
	Decoder     *float64 // 0 to 1
	MemoryTotal *float64 // bytes
	MemoryUsed  *float64 // bytes, by all processes together
	Temperature *float64 // degrees Celsius
	Power       *float64 // watts
	PowerLimit  *float64 // watts
	Energy      *float64 // joules, since the driver was loaded
	Fan         *float64 // 0 to 1
	ECCErrors   *float64 // uncorrected memory errors since the driver was loaded
	LinkGen     *float64 // generation of the PCI Express link
	LinkWidth   *float64 // lanes of it

	Clocks       map[string]float64 // hertz: graphics, sm, memory
	MaxClocks    map[string]float64 // hertz
	Temperatures map[string]float64 // degrees Celsius, by zone, where there are several
	Rails        map[string]float64 // watts, by power rail, where there are several
	Slowed       []string           // why its clocks are lower than they could be, in NVML's words
	Mode         string             // power mode of a Jetson; empty when it is not told
}

// Throttled tells why the device works slower than it is asked to, to save itself: too hot, too little power. Empty when it
// does not. An idle device, or one that an operator has slowed, is not throttled.
func (t *Telemetry) Throttled() string {
	if t == nil {
		return ""
	}
	for _, reason := range t.Slowed {
		switch reason {
		case SlowedHot, SlowedHotHardware, SlowedHardware, SlowedPowerBrake, SlowedOverCurrent:
			return reason
		}
	}
	return ""
}

// The reasons for lower clocks.
const (
	SlowedIdle        = "idle"
	SlowedSetting     = "applications_clocks_setting"
	SlowedPowerCap    = "sw_power_cap"
	SlowedHardware    = "hw_slowdown"
	SlowedSync        = "sync_boost"
	SlowedHot         = "sw_thermal_slowdown"
	SlowedHotHardware = "hw_thermal_slowdown"
	SlowedPowerBrake  = "hw_power_brake_slowdown"
	SlowedDisplay     = "display_clock_setting"
	SlowedOverCurrent = "over_current"
)
