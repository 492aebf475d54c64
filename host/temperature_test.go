package host

import "testing"

func TestTheHottestZoneIsTold(t *testing.T) {
	root := t.TempDir()
	if _, ok := Temperature(root); ok {
		t.Error("a machine without zones has a temperature")
	}
	write(t, root, "sys/class/thermal/thermal_zone0/temp", "41500\n")
	write(t, root, "sys/class/thermal/thermal_zone1/temp", "63000\n")
	write(t, root, "sys/class/thermal/thermal_zone2/temp", "off\n")
	write(t, root, "sys/class/thermal/thermal_zone3/temp", "-274000\n")
	if got, ok := Temperature(root); !ok || got != 63 {
		t.Errorf("%v, %v", got, ok)
	}
}
