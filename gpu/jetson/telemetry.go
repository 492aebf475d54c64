package jetson

import (
	"bufio"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// Telemetry reads what the board tells at this moment.
func (b *Board) Telemetry() *edgewise.Telemetry {
	t := &edgewise.Telemetry{Mode: b.mode()}
	b.readGPU(t)
	b.readMemory(t)
	b.readZones(t)
	b.readPower(t)
	return t
}

// set makes a field of a number that was read.
func set(field **float64, v float64, ok bool) {
	if ok {
		*field = &v
	}
}

func put(m *map[string]float64, name string, v float64, ok bool) {
	if !ok {
		return
	}
	if *m == nil {
		*m = map[string]float64{}
	}
	(*m)[name] = v
}

func (b *Board) readGPU(t *edgewise.Telemetry) {
	for _, folder := range b.gpu[:min(len(b.gpu), 1)] {
		now, ok := number(filepath.Join(folder, "cur_freq"))
		put(&t.Clocks, "graphics", now, ok && now >= 0)
		most, ok := number(filepath.Join(folder, "max_freq"))
		put(&t.MaxClocks, "graphics", most, ok && most >= 0)
		load, ok := number(filepath.Join(folder, "device/load")) // in thousandths
		set(&t.Utilization, load/1000, ok && load >= 0 && load <= 1000)
	}
	if t.Utilization == nil {
		for _, path := range glob(b.root, "sys/devices/platform/*/*gpu/load") {
			load, ok := number(path)
			set(&t.Utilization, load/1000, ok && load >= 0 && load <= 1000)
		}
	}
	emc, ok := number(filepath.Join(b.root, "sys/kernel/debug/bpmp/debug/clk/emc/rate"))
	put(&t.Clocks, "memory", emc, ok && emc >= 0)
}

func (b *Board) readMemory(t *edgewise.Telemetry) {
	total, available, ok := host.Memory(b.root)
	set(&t.MemoryTotal, float64(total), ok)
	set(&t.MemoryUsed, float64(total-available), ok)
}

// Bounds of a temperature that a sensor may tell; others mean that the part is disabled.
const (
	coldest = -55
	hottest = 150
)

func (b *Board) readZones(t *edgewise.Telemetry) {
	for _, folder := range glob(b.root, "sys/class/thermal/thermal_zone*") {
		name := strings.TrimSuffix(strings.TrimSpace(read("", filepath.Join(folder, "type"))), "-thermal")
		milli, ok := number(filepath.Join(folder, "temp"))
		degrees := milli / 1000
		ok = ok && name != "" && degrees > coldest && degrees < hottest
		put(&t.Temperatures, name, degrees, ok)
		if name == "gpu" {
			set(&t.Temperature, degrees, ok)
		}
	}
	if tj, ok := t.Temperatures["tj"]; ok && t.Temperature == nil {
		t.Temperature = &tj
	}
	for _, folder := range glob(b.root, "sys/class/thermal/cooling_device*") {
		kind := strings.TrimSpace(read("", filepath.Join(folder, "type")))
		state, ok := number(filepath.Join(folder, "cur_state"))
		if ok && state > 0 && strings.Contains(kind, "gpu") && strings.Contains(kind, "throttle") {
			t.Slowed = append(t.Slowed, "sw_thermal_slowdown")
			break
		}
	}
}

// totalRail is the rail that carries everything, on boards that have it.
const totalRail = "VDD_IN"

// sumLabel marks a sensor's channel that adds up the others.
const sumLabel = "sum of shunt voltages"

func (b *Board) readPower(t *edgewise.Telemetry) {
	over := false
	for _, folder := range glob(b.root, "sys/class/hwmon/hwmon*") {
		name := strings.TrimSpace(read("", filepath.Join(folder, "name")))
		if strings.HasPrefix(name, "pwm") {
			continue
		}
		for channel := 1; channel <= 8; channel++ {
			base := func(prefix, suffix string) string {
				return filepath.Join(folder, prefix+strconv.Itoa(channel)+suffix)
			}
			label := strings.TrimSpace(read("", base("in", "_label")))
			volts, ok1 := number(base("in", "_input"))
			amperes, ok2 := number(base("curr", "_input"))
			if ok1 && ok2 && label != "" && label != "NC" && label != sumLabel && volts >= 0 && amperes >= 0 {
				put(&t.Rails, label, volts*amperes/1e6, true) // millivolts and milliamperes
			}
			if micro, ok := number(base("power", "_input")); ok && micro >= 0 {
				label := strings.TrimSpace(read("", base("power", "_label")))
				if label == "" {
					label = name
				}
				put(&t.Rails, label, micro/1e6, true)
			}
			alarm, ok := number(base("curr", "_crit_alarm"))
			over = over || ok && alarm > 0
		}
	}
	if over {
		t.Slowed = append(t.Slowed, "over_current")
	}
	sum := 0.0
	for _, watts := range t.Rails {
		sum += watts
	}
	if total, ok := t.Rails[totalRail]; ok {
		sum = total
	}
	set(&t.Power, sum, len(t.Rails) > 0)
}

// mode returns the power mode that was set last, by its name where the board lists its modes.
func (b *Board) mode() string {
	_, number, ok := strings.Cut(strings.TrimSpace(read(b.root, "var/lib/nvpmodel/status")), "pmode:")
	if !ok {
		return ""
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(strings.NewReader(read(b.root, "etc/nvpmodel.conf"))); lines.Scan(); {
		// < POWER_MODEL ID=2 NAME=30W >
		fields := strings.Fields(lines.Text())
		if len(fields) >= 4 && fields[0] == "<" && fields[1] == "POWER_MODEL" && fields[2] == "ID="+strconv.Itoa(n) {
			return strings.TrimPrefix(fields[3], "NAME=")
		}
	}
	return strconv.Itoa(n)
}
