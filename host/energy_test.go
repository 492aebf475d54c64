package host

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheEnergyOfPackagesIsAddedUpAndItsCountersBeginAgain(t *testing.T) {
	root := t.TempDir()
	zone := func(name, is, energy string) {
		write(t, root, "sys/class/powercap/"+name+"/name", is+"\n")
		write(t, root, "sys/class/powercap/"+name+"/energy_uj", energy+"\n")
		write(t, root, "sys/class/powercap/"+name+"/max_energy_range_uj", "10000000\n")
	}
	zone("intel-rapl:0", "package-0", "1000000")
	zone("intel-rapl:0:0", "core", "5000000")
	zone("intel-rapl:1", "package-1", "9500000")
	zone("intel-rapl:2", "psys", "7000000")
	e, err := NewEnergy(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		first, second string
		want          float64
	}{{"1500000", "9500000", 0.5}, {"1500000", "500000", 1.5}, {"2500000", "700000", 2.7}} {
		zone("intel-rapl:0", "package-0", step.first)
		zone("intel-rapl:1", "package-1", step.second)
		zone("intel-rapl:0:0", "core", "9999999")
		zone("intel-rapl:2", "psys", "9999999")
		if got, err := e.Read(); err != nil || math.Abs(got-step.want) > 1e-9 {
			t.Errorf("%v J, %v: want %v", got, err, step.want)
		}
	}
	if err := os.Remove(filepath.Join(root, "sys/class/powercap/intel-rapl:1/energy_uj")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Read(); err == nil || !strings.Contains(err.Error(), "energy_uj") {
		t.Error(err)
	}
}

func TestAMachineWithoutCountersOfEnergySaysSo(t *testing.T) {
	root := t.TempDir()
	if _, err := NewEnergy(root); err == nil || !strings.Contains(err.Error(), "/sys/class/powercap") {
		t.Error(err)
	}
	write(t, root, "sys/class/powercap/intel-rapl:0/name", "package-0\n")
	write(t, root, "sys/class/powercap/intel-rapl:0/energy_uj", "much\n")
	if _, err := NewEnergy(root); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}
