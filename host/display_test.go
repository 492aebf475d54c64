package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDisplaysAreTheDevicesForGraphicsOfTheBus(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, "sys/bus/pci", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	device := func(bus, class, vendor, device string) {
		put("devices/"+bus+"/class", class+"\n")
		put("devices/"+bus+"/vendor", vendor+"\n")
		put("devices/"+bus+"/device", device+"\n")
	}
	device("0000:03:00.0", "0x030200", "0x1002", "0x73df")
	device("0000:00:02.0", "0x030000", "0x8086", "0x46d1")
	device("0000:01:00.0", "0x020000", "0x8086", "0x15f3")
	put("drivers/i915/bind", "")
	if err := os.Symlink("../../drivers/i915", filepath.Join(root, "sys/bus/pci/devices/0000:00:02.0/driver")); err != nil {
		t.Fatal(err)
	}
	want := []Display{{"0000:00:02.0", "8086", "46d1", "i915"}, {"0000:03:00.0", "1002", "73df", ""}}
	got := Displays(root)
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v: want %+v", got, want)
	}
	if got := Displays(t.TempDir()); len(got) != 0 {
		t.Errorf("a machine without a PCI bus has %+v", got)
	}
}
