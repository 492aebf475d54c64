package fakegpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sysroot writes the files that a machine tells of itself in below root: "orin-jp6", "thor-jp7" or "x86".
func Sysroot(machine, root string) error {
	files, ok := sysroots[machine]
	if !ok {
		return fmt.Errorf("no machine %q", machine)
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, "|", "\x00")), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sysroots are files by machine and path. A | stands for a 0 byte.
var sysroots = map[string]map[string]string{
	"x86": {
		"proc/meminfo":                         "MemTotal:       32000000 kB\nMemAvailable:   20000000 kB\n",
		"sys/class/thermal/thermal_zone0/type": "x86_pkg_temp\n",
		"sys/class/thermal/thermal_zone0/temp": "45000\n",
		"sys/class/hwmon/hwmon0/name":          "coretemp\n",
	},
	"orin-jp6": {
		"proc/device-tree/model":      "NVIDIA Jetson AGX Orin Developer Kit|",
		"proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0005|nvidia,p3701-0005|nvidia,tegra234|",
		"etc/nv_tegra_release":        "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64, DATE: x\n",
		"proc/meminfo":                "MemTotal:       64387072 kB\nMemFree:         1000000 kB\nMemAvailable:   53901312 kB\nSwapTotal: 0 kB\n",

		"sys/class/devfreq/17000000.gpu/device/of_node/name": "gpu|",
		"sys/class/devfreq/17000000.gpu/cur_freq":            "816000000\n",
		"sys/class/devfreq/17000000.gpu/max_freq":            "1300500000\n",
		"sys/class/devfreq/17000000.gpu/device/load":         "347\n",
		"sys/class/devfreq/15340000.vic/device/of_node/name": "vic|",
		"sys/class/devfreq/15340000.vic/cur_freq":            "115200000\n",
		"sys/kernel/debug/bpmp/debug/clk/emc/rate":           "3199000000\n",

		"sys/class/thermal/thermal_zone0/type":        "cpu-thermal\n",
		"sys/class/thermal/thermal_zone0/temp":        "50875\n",
		"sys/class/thermal/thermal_zone1/type":        "gpu-thermal\n",
		"sys/class/thermal/thermal_zone1/temp":        "51500\n",
		"sys/class/thermal/thermal_zone2/type":        "cv0-thermal\n",
		"sys/class/thermal/thermal_zone2/temp":        "-256000\n",
		"sys/class/thermal/thermal_zone3/type":        "tj-thermal\n",
		"sys/class/thermal/thermal_zone3/temp":        "52250\n",
		"sys/class/thermal/cooling_device3/type":      "gpu-throttle-alert\n",
		"sys/class/thermal/cooling_device3/cur_state": "0\n",

		"sys/class/hwmon/hwmon3/name":             "ina3221\n",
		"sys/class/hwmon/hwmon3/in1_label":        "VDD_GPU_SOC\n",
		"sys/class/hwmon/hwmon3/in1_input":        "20000\n",
		"sys/class/hwmon/hwmon3/curr1_input":      "250\n",
		"sys/class/hwmon/hwmon3/curr1_crit_alarm": "0\n",
		"sys/class/hwmon/hwmon3/in2_label":        "VDD_CPU_CV\n",
		"sys/class/hwmon/hwmon3/in2_input":        "20000\n",
		"sys/class/hwmon/hwmon3/curr2_input":      "125\n",
		"sys/class/hwmon/hwmon3/in3_label":        "VIN_SYS_5V0\n",
		"sys/class/hwmon/hwmon3/in3_input":        "5000\n",
		"sys/class/hwmon/hwmon3/curr3_input":      "1000\n",
		"sys/class/hwmon/hwmon3/in4_label":        "NC\n",
		"sys/class/hwmon/hwmon3/in4_input":        "0\n",
		"sys/class/hwmon/hwmon3/curr4_input":      "0\n",
		"sys/class/hwmon/hwmon3/in7_label":        "sum of shunt voltages\n",
		"sys/class/hwmon/hwmon3/in7_input":        "3\n",
		"sys/class/hwmon/hwmon3/curr7_input":      "4\n",
		"sys/class/hwmon/hwmon4/name":             "pwmfan\n",
		"sys/class/hwmon/hwmon4/pwm1":             "80\n",

		"var/lib/nvpmodel/status": "pmode:0002",
		"etc/nvpmodel.conf":       "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
	},
	"thor-jp7": {
		"proc/device-tree/model":      "NVIDIA Jetson AGX Thor Developer Kit|",
		"proc/device-tree/compatible": "nvidia,p3971-0080+p3834-0008|nvidia,tegra264|",
		"etc/nv_tegra_release":        "# R38 (release), REVISION: 2.0, GCID: 1, BOARD: generic\n",
		"proc/meminfo":                "MemTotal:      128000000 kB\nMemAvailable:  100000000 kB\n",

		"sys/class/devfreq/gpu-gpc-0/cur_freq": "1575000000\n",
		"sys/class/devfreq/gpu-gpc-0/max_freq": "1575000000\n",
		"sys/class/devfreq/gpu-nvd-0/cur_freq": "1692000000\n",

		"sys/class/thermal/thermal_zone0/type": "tj-thermal\n",
		"sys/class/thermal/thermal_zone0/temp": "44000\n",

		"sys/class/hwmon/hwmon2/name":         "ina238\n",
		"sys/class/hwmon/hwmon2/power1_input": "31500000\n",

		"var/lib/nvpmodel/status": "pmode:0001",
	},
}
