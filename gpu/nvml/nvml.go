package nvml

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nvml.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// MaxDevices bounds how many devices are read.
const MaxDevices = 64

// Library is NVML, opened and initialised. A process opens it once and keeps it. Its methods are safe for concurrent
// use.
type Library struct {
	c *C.nv_library

	mu      sync.Mutex // guards reading: NVML of some drivers is slow when it is asked twice at a time
	devices []device
}

type device struct {
	handle C.nv_device
	uuid   string
}

// Candidates returns the names under which NVML is looked for: the configured path alone when there is one.
func Candidates(configured string) []string {
	if configured != "" {
		return []string{configured}
	}
	return []string{
		"libnvidia-ml.so.1", "/usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1",
		"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	}
}

// Open loads the first NVML of candidates. Error: Unavailable (there is none, or its driver is not loaded).
func Open(candidates []string) (*Library, error) {
	const op = "nvml.Open"
	var told string
	for _, name := range candidates {
		c, message := open(name)
		if c == nil {
			told = message
			continue
		}
		if r := C.nv_init(c); r != 0 {
			return nil, edgewise.Errorf(op, edgewise.Unavailable, "NVML (%s) does not start: %s", name,
				C.GoString(C.nv_text(c, r)))
		}
		l := &Library{c: c}
		return l, l.list()
	}
	return nil, edgewise.Errorf(op, edgewise.Unavailable,
		"NVML was not found, so GPUs tell nothing of themselves: tried %s: %s", strings.Join(candidates, ", "), told)
}

func open(name string) (*C.nv_library, string) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var message *C.char
	l := C.nv_open(cName, &message)
	defer C.free(unsafe.Pointer(message))
	return l, C.GoString(message)
}

func (l *Library) list() error {
	var n C.uint
	if err := l.check("listing devices", C.nv_count(l.c, &n)); err != nil {
		return err
	}
	for i := range min(n, MaxDevices) {
		var d device
		if err := l.check(fmt.Sprintf("device %d", i), C.nv_handle(l.c, i, &d.handle)); err != nil {
			return err
		}
		var text [96]C.char
		if C.nv_uuid(l.c, d.handle, &text[0], C.uint(len(text))) == 0 {
			d.uuid = C.GoString(&text[0])
		}
		l.devices = append(l.devices, d)
	}
	return nil
}

func (l *Library) check(what string, r C.nv_result) error {
	if r == 0 {
		return nil
	}
	return edgewise.Errorf("nvml.Read", edgewise.Unavailable, "NVML: %s: %s (error %d)", what,
		C.GoString(C.nv_text(l.c, r)), int32(r))
}

// Read returns what the device with that UUID tells at this moment. Errors: NotFound, Unavailable (it has fallen off
// the bus).
func (l *Library) Read(uuid string) (*edgewise.Telemetry, error) {
	for _, d := range l.devices {
		if d.uuid != uuid {
			continue
		}
		var s C.nv_sample
		l.mu.Lock()
		r := C.nv_read(l.c, d.handle, &s)
		l.mu.Unlock()
		if err := l.check(d.uuid, r); err != nil {
			return nil, err
		}
		return telemetry(&s), nil
	}
	return nil, edgewise.Errorf("nvml.Read", edgewise.NotFound, "NVML knows no device %s", uuid)
}

// value returns a value in another unit; nil when the device does not have it.
func value(s *C.nv_sample, which int, unit float64) *float64 {
	if s.present&(1<<which) == 0 {
		return nil
	}
	v := float64(s.value[which]) * unit
	return &v
}

const (
	percent = 0.01
	milli   = 1e-3
	mega    = 1e6
)

func telemetry(s *C.nv_sample) *edgewise.Telemetry {
	return &edgewise.Telemetry{
		Utilization: value(s, C.NV_UTILIZATION, percent), MemoryLoad: value(s, C.NV_MEMORY_UTILIZATION, percent),
		Encoder: value(s, C.NV_ENCODER, percent), Decoder: value(s, C.NV_DECODER, percent),
		MemoryTotal: value(s, C.NV_MEMORY_TOTAL, 1), MemoryUsed: value(s, C.NV_MEMORY_USED, 1),
		Temperature: value(s, C.NV_TEMPERATURE, 1), Power: value(s, C.NV_POWER, milli), PowerLimit: value(s, C.NV_POWER_LIMIT,
			milli),
		Energy: value(s, C.NV_ENERGY, milli), Fan: value(s, C.NV_FAN, percent), ECCErrors: value(s, C.NV_ECC, 1),
		LinkGen: value(s, C.NV_LINK_GENERATION, 1), LinkWidth: value(s, C.NV_LINK_WIDTH, 1),
		Clocks: clocks(s, C.NV_CLOCK_GRAPHICS), MaxClocks: clocks(s, C.NV_CLOCK_GRAPHICS_MAX),
		Slowed: slowed(value(s, C.NV_REASONS, 1)),
	}
}

func clocks(s *C.nv_sample, first int) map[string]float64 {
	var m map[string]float64
	for i, name := range []string{"graphics", "sm", "memory"} {
		if v := value(s, first+i, mega); v != nil {
			if m == nil {
				m = map[string]float64{}
			}
			m[name] = *v
		}
	}
	return m
}

// reasons are NVML's bits, from the lowest.
var reasons = []string{
	"idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
	"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting",
}

func slowed(bits *float64) []string {
	if bits == nil {
		return nil
	}
	list := []string{}
	for i, reason := range reasons {
		if uint64(*bits)&(1<<i) != 0 {
			list = append(list, reason)
		}
	}
	return list
}
