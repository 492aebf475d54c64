package nvml_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/nvml"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

const everything = `memory_total 24152899584
memory_used 1073741824
utilization 83
memory_utilization 41
temperature 61
power 68250
power_limit 72000
energy 123456789
clock_graphics 1545
clock_sm 1545
clock_memory 6251
max_clock_sm 2040
fan 30
reasons 0x24
ecc 2
`

func tell(t *testing.T, content string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKEGPU_NVML", path)
}

func open(t *testing.T) *nvml.Library {
	t.Helper()
	l, err := nvml.Open([]string{"libnotthere.so", fakegpu.Build(t, "libnvidia-ml")})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const uuid = "GPU-00000000-0000-0000-0000-000000000000"

func TestEverythingThatADeviceTells(t *testing.T) {
	tell(t, everything)
	l := open(t)
	s, err := l.Read(uuid)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]struct {
		got  *float64
		want float64
	}{
		"utilization": {s.Utilization, 0.83}, "memory load": {s.MemoryLoad, 0.41}, "total": {s.MemoryTotal, 24152899584},
		"used":        {s.MemoryUsed, 1 << 30},
		"temperature": {s.Temperature, 61}, "power": {s.Power, 68.25}, "limit": {s.PowerLimit, 72},
		"energy": {s.Energy, 123456.789}, "fan": {s.Fan, 0.3}, "ecc": {s.ECCErrors, 2},
	} {
		if v.got == nil || *v.got < v.want*0.999999 || *v.got > v.want*1.000001 {
			t.Errorf("%s: %v, want %v", name, v.got, v.want)
		}
	}
	if s.Clocks["memory"] != 6251e6 || s.MaxClocks["sm"] != 2040e6 || len(s.MaxClocks) != 1 {
		t.Errorf("clocks %v of %v", s.Clocks, s.MaxClocks)
	}
	if !slices.Equal(s.Slowed, []string{"sw_power_cap", "sw_thermal_slowdown"}) || s.Throttled() != "sw_thermal_slowdown" {
		t.Errorf("slowed by %v", s.Slowed)
	}
	if s.Encoder != nil || s.LinkGen != nil {
		t.Error("functions that this NVML does not have gave values")
	}
}

func TestWhatADeviceDoesNotTellIsAbsent(t *testing.T) {
	tell(t, "")
	s, err := open(t).Read(uuid)
	if err != nil {
		t.Fatal(err)
	}
	if s.Utilization != nil || s.Power != nil || s.MemoryTotal != nil || s.Clocks != nil || s.Slowed != nil ||
		s.Throttled() != "" {
		t.Errorf("a device that tells nothing told %+v", s)
	}
}

func TestLostDevice(t *testing.T) {
	tell(t, everything)
	l := open(t)
	tell(t, "fail 15\n")
	if _, err := l.Read(uuid); err == nil || edgewise.KindOf(err) != edgewise.Unavailable ||
		!strings.Contains(err.Error(), "GPU is lost") {
		t.Errorf("got %v", err)
	}
	if _, err := l.Read("GPU-other"); err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("unknown device: %v", err)
	}
}

func TestNoNVML(t *testing.T) {
	tell(t, "init 9\n")
	for want, path := range map[string]string{
		"was not found": "libnotthere.so", "not NVML": "libm.so.6",
		"Driver Not Loaded": fakegpu.Build(t, "libnvidia-ml"),
	} {
		if _, err := nvml.Open([]string{path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
