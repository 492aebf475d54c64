package serving

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// zone makes a folder of sysfs in which a package of the processors has used some microjoules.
func zone(t *testing.T, root, energy string) {
	t.Helper()
	dir := filepath.Join(root, "sys/class/powercap/intel-rapl:0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"name": "package-0", "max_energy_range_uj": "262143328850", "energy_uj": energy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheEnergyOfProcessorsAndGPUsIsAddedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		zone(t, root, "1000000")
		counter, power := 100.0, 40.0
		list := []edgewise.DeviceInfo{
			{Device: edgewise.Device{Kind: edgewise.GPU, Index: 0}, Used: true, Name: "gpu:0"},
			{Device: edgewise.Device{Kind: edgewise.GPU, Index: 1}, Used: true, Name: "gpu:1"},
		}
		e := NewEnergy(root, func() []edgewise.DeviceInfo { return list },
			func(d edgewise.DeviceInfo) *edgewise.Telemetry {
				if d.Device.Index == 0 {
					return &edgewise.Telemetry{Energy: &counter}
				}
				return &edgewise.Telemetry{Power: &power}
			})
		if first, err := e.Read(); err != nil || first != 0 {
			t.Errorf("%v, %v", first, err)
		}
		zone(t, root, "3000000")
		counter = 105
		time.Sleep(500 * time.Millisecond)
		if got, err := e.Read(); err != nil || math.Abs(got-(2+5+20)) > 1e-6 {
			t.Errorf("%v J, %v: want 2 of the processor, 5 of the counter, 40 W for half a second", got, err)
		}
		for _, kind := range []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU} {
			if err := e.Measures(kind); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWhatTellsNothingOfItsEnergyIsNamed(t *testing.T) {
	list := []edgewise.DeviceInfo{{Device: edgewise.Device{Kind: edgewise.GPU}, Used: true, Name: "gpu:0"}}
	e := NewEnergy(t.TempDir(), func() []edgewise.DeviceInfo { return list },
		func(edgewise.DeviceInfo) *edgewise.Telemetry { return nil })
	if err := e.Measures(edgewise.CPU); err == nil || !strings.Contains(err.Error(), "the processors tell nothing") {
		t.Error(err)
	}
	if err := e.Measures(edgewise.GPU); err == nil || !strings.Contains(err.Error(), "device gpu:0 tells nothing") {
		t.Error(err)
	}
	if _, err := e.Read(); err == nil {
		t.Error("energy was read of nothing")
	}
}
