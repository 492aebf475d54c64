package drm_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/drm"
)

// tree writes files below the folder of a device and returns the root of the file system.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, "sys/bus/pci/devices/0000:03:00.0", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func number(v float64) *float64 { return &v }

func TestDriversTellOfTheirDevices(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  *edgewise.Telemetry
	}{
		"amdgpu": {
			map[string]string{
				"gpu_busy_percent": "83\n", "mem_info_vram_total": "8573157376\n", "mem_info_vram_used": "1048576\n",
				"hwmon/hwmon4/temp1_input": "61000\n", "hwmon/hwmon4/power1_average": "45500000\n", "hwmon/hwmon4/power1_cap": "65000000\n",
				"hwmon/hwmon4/fan1_input": "1000\n", "hwmon/hwmon4/fan1_max": "4000\n", "hwmon/hwmon4/freq1_input": "1500000000\n",
				"mem_busy_percent": "garbage",
			},
			&edgewise.Telemetry{
				Utilization: number(0.83), MemoryTotal: number(8573157376), MemoryUsed: number(1048576), Temperature: number(61),
				Power: number(45.5), PowerLimit: number(65), Fan: number(0.25), Clocks: map[string]float64{"graphics": 1.5e9},
			},
		},
		"i915": {
			map[string]string{
				"drm/card0/gt_act_freq_mhz": "750", "drm/card0/gt_max_freq_mhz": "1000", "drm/card0/gt/gt0/throttle_reason_thermal": "1",
				"drm/card0/gt/gt0/throttle_reason_prochot": "1", "drm/card0/gt/gt0/throttle_reason_pl1": "0",
			},
			&edgewise.Telemetry{
				Clocks: map[string]float64{"graphics": 7.5e8}, MaxClocks: map[string]float64{"graphics": 1e9},
				Slowed: []string{"hw_thermal_slowdown"},
			},
		},
		"xe": {
			map[string]string{"tile0/gt0/freq0/act_freq": "300", "tile0/gt0/freq0/throttle/reason_pl1": "1"},
			&edgewise.Telemetry{Clocks: map[string]float64{"graphics": 3e8}, Slowed: []string{"sw_power_cap"}},
		},
		"nothing": {nil, nil},
	} {
		if got := drm.Read(tree(t, test.files), "0000:03:00.0"); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if got := drm.Read(tree(t, map[string]string{"gpu_busy_percent": "1"}), "*"); got != nil {
		t.Errorf("a pattern is no device: %+v", got)
	}
}
