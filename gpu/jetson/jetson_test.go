package jetson_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise/gpu/jetson"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

func tree(t *testing.T, name string) string {
	t.Helper()
	root := t.TempDir()
	if err := fakegpu.Sysroot(name, root); err != nil {
		t.Fatal(err)
	}
	return root
}

func near(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-6 }

func TestOrin(t *testing.T) {
	b := jetson.Find(tree(t, "orin-jp6"))
	if b == nil || b.String() != "NVIDIA Jetson AGX Orin Developer Kit, tegra234, L4T 36.4.3" {
		t.Fatalf("found %v", b)
	}
	s := b.Telemetry()
	if !near(s.Utilization, 0.347) || !near(s.Temperature, 51.5) || !near(s.Power, 12.5) ||
		!near(s.MemoryTotal, 62878<<20) || !near(s.MemoryUsed, 10240<<20) {
		t.Errorf("load %v, %v degrees, %v W, memory %v of %v", s.Utilization, s.Temperature, s.Power, s.MemoryUsed,
			s.MemoryTotal)
	}
	if s.Clocks["graphics"] != 816e6 || s.MaxClocks["graphics"] != 1300.5e6 || s.Clocks["memory"] != 3199e6 ||
		s.Mode != "MODE_30W" {
		t.Errorf("clocks %v of %v, mode %s", s.Clocks, s.MaxClocks, s.Mode)
	}
	if _, cv := s.Temperatures["cv0"]; cv || s.Temperatures["tj"] != 52.25 || len(s.Temperatures) != 3 {
		t.Errorf("temperatures %v: a part that is disabled has none", s.Temperatures)
	}
	if len(s.Rails) != 3 || s.Rails["VDD_GPU_SOC"] != 5 || s.Throttled() != "" {
		t.Errorf("rails %v, slowed by %v", s.Rails, s.Slowed)
	}
}

func TestOrinThatIsThrottled(t *testing.T) {
	root := tree(t, "orin-jp6")
	write(t, root, "sys/class/thermal/cooling_device3/cur_state", "2\n")
	write(t, root, "sys/class/hwmon/hwmon3/curr1_crit_alarm", "1\n")
	s := jetson.Find(root).Telemetry()
	if !slices.Equal(s.Slowed, []string{"sw_thermal_slowdown", "over_current"}) || s.Throttled() != "sw_thermal_slowdown" {
		t.Errorf("slowed by %v", s.Slowed)
	}
}

func TestThorTellsNoLoad(t *testing.T) {
	b := jetson.Find(tree(t, "thor-jp7"))
	if b == nil || b.Chip != "tegra264" || b.Release != "38.2.0" {
		t.Fatalf("found %+v", b)
	}
	s := b.Telemetry()
	if s.Utilization != nil || s.Clocks["graphics"] != 1575e6 || !near(s.Temperature, 44) || !near(s.Power, 31.5) ||
		s.Mode != "1" {
		t.Errorf("load %v, clocks %v, %v degrees, %v W, mode %q", s.Utilization, s.Clocks, s.Temperature, s.Power, s.Mode)
	}
}

func TestNoJetson(t *testing.T) {
	if b := jetson.Find(tree(t, "x86")); b != nil {
		t.Errorf("found %v", b)
	}
	if b := jetson.Find(filepath.Join(t.TempDir(), "nowhere")); b != nil {
		t.Errorf("found %v", b)
	}
}

// TestDamagedTreesGiveAbsentValues takes files away, and puts garbage into others, and looks that nothing impossible is
// told.
func TestDamagedTreesGiveAbsentValues(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		root, err := os.MkdirTemp("", "edgewise-jetson-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		if err := fakegpu.Sysroot(rapid.SampledFrom([]string{"orin-jp6", "thor-jp7"}).Draw(r, "board"), root); err != nil {
			t.Fatal(err)
		}
		var files []string
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.Contains(path, "device-tree") {
				files = append(files, path)
			}
			return err
		})
		for range 5 {
			path := rapid.SampledFrom(files).Draw(r, "file")
			switch rapid.IntRange(0, 2).Draw(r, "damage") {
			case 0:
				_ = os.Remove(path)
			case 1:
				_ = os.WriteFile(path, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(r, "bytes"), 0o600)
			case 2:
				_ = os.WriteFile(path, []byte(rapid.SampledFrom([]string{
					"", "-256000", "1e999", "NaN", "-1", "\n\n", "pmode:",
					"MemTotal: -5 kB\nMemAvailable: 9 kB",
				}).Draw(r, "text")), 0o600)
			}
		}
		s := jetson.Find(root).Telemetry()
		if u := s.Utilization; u != nil && !(*u >= 0 && *u <= 1) {
			r.Errorf("load %v", *u)
		}
		if c := s.Temperature; c != nil && !(*c > -55 && *c < 150) {
			r.Errorf("%v degrees", *c)
		}
		if s.MemoryUsed != nil && !(*s.MemoryUsed >= 0) {
			r.Errorf("%v bytes used", *s.MemoryUsed)
		}
		if s.Power != nil && !(*s.Power >= 0) {
			r.Errorf("%v W", *s.Power)
		}
		for name, hertz := range s.Clocks {
			if !(hertz >= 0) {
				r.Errorf("clock %s %v", name, hertz)
			}
		}
	})
}

func write(t *testing.T, root, path, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
