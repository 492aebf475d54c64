// Package drm reads what the kernel's drivers for graphics tell of a device: amdgpu, i915 and xe.
package drm

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Read returns what the device with that place on the PCI bus tells at this moment; nil when it has none or tells
// nothing. root is that of the file system.
func Read(root, busID string) *edgewise.Telemetry {
	if busID == "" || strings.ContainsAny(busID, "/*?[") {
		return nil
	}
	d := device(filepath.Join(root, "sys/bus/pci/devices", busID))
	t, told := &edgewise.Telemetry{}, false
	for _, v := range []struct {
		field   **float64
		pattern string
		divisor float64
	}{
		{&t.Utilization, "gpu_busy_percent", 100},
		{&t.MemoryLoad, "mem_busy_percent", 100},
		{&t.MemoryTotal, "mem_info_vram_total", 1},
		{&t.MemoryUsed, "mem_info_vram_used", 1},
		{&t.Temperature, "hwmon/hwmon*/temp1_input", 1e3},
		{&t.Power, "hwmon/hwmon*/power1_average", 1e6},
		{&t.Power, "hwmon/hwmon*/power1_input", 1e6},
		{&t.PowerLimit, "hwmon/hwmon*/power1_cap", 1e6},
		{&t.Energy, "hwmon/hwmon*/energy1_input", 1e6},
	} {
		if n, ok := d.number(v.pattern); ok && *v.field == nil {
			n /= v.divisor
			*v.field, told = &n, true
		}
	}
	if now, ok := d.number("hwmon/hwmon*/fan1_input"); ok {
		if most, ok := d.number("hwmon/hwmon*/fan1_max"); ok && most > 0 {
			share := now / most
			t.Fan = &share
		}
	}
	t.Clocks, t.MaxClocks, t.Slowed = d.clocks(), d.limits(), d.slowed()
	if !told && t.Clocks == nil && t.Slowed == nil {
		return nil
	}
	return t
}

// device is the folder of a device.
type device string

// number reads the first file that matches.
func (d device) number(pattern string) (float64, bool) {
	found, _ := filepath.Glob(filepath.Join(string(d), pattern)) // the patterns are good ones
	for _, path := range found {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(string(content)), 64); err == nil && n >= 0 && !math.IsInf(n, 0) {
			return n, true
		}
	}
	return 0, false
}

const mega = 1e6

// clocks are by the names that NVML has for them.
func (d device) clocks() map[string]float64 {
	return d.named(map[string][]source{
		"graphics": {
			{"hwmon/hwmon*/freq1_input", 1},
			{"drm/card*/gt_act_freq_mhz", mega},
			{"tile0/gt0/freq0/act_freq", mega},
		},
		"memory": {{"hwmon/hwmon*/freq2_input", 1}},
	})
}

func (d device) limits() map[string]float64 {
	return d.named(map[string][]source{
		"graphics": {{"drm/card*/gt_max_freq_mhz", mega}, {"tile0/gt0/freq0/max_freq", mega}},
	})
}

// source is a file and the unit of its number.
type source struct {
	pattern string
	unit    float64
}

func (d device) named(of map[string][]source) map[string]float64 {
	var m map[string]float64
	for name, sources := range of {
		for _, s := range sources {
			if n, ok := d.number(s.pattern); ok {
				if m == nil {
					m = map[string]float64{}
				}
				m[name] = n * s.unit
				break
			}
		}
	}
	return m
}

// reasons are those of Intel's drivers for lower clocks, in NVML's words.
var reasons = []struct{ file, word string }{
	{"thermal", "hw_thermal_slowdown"},
	{"prochot", "hw_thermal_slowdown"},
	{"vr_thermalert", "hw_thermal_slowdown"},
	{"vr_tdc", "hw_power_brake_slowdown"},
	{"pl1", "sw_power_cap"},
	{"pl2", "sw_power_cap"},
	{"pl4", "hw_power_brake_slowdown"},
}

// slowed lists why the clocks are throttled; nil when the driver does not tell.
func (d device) slowed() []string {
	var list []string
	seen := map[string]bool{}
	for _, r := range reasons {
		for _, pattern := range []string{"drm/card*/gt/gt0/throttle_reason_" + r.file, "tile0/gt0/freq0/throttle/reason_" + r.file} {
			n, ok := d.number(pattern)
			if ok && list == nil {
				list = []string{}
			}
			if ok && n != 0 && !seen[r.word] {
				seen[r.word] = true
				list = append(list, r.word)
			}
		}
	}
	return list
}
