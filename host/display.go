package host

import (
	"path/filepath"
	"slices"
	"strings"
)

// Display is a device for graphics on the PCI bus.
type Display struct {
	BusID  string // as 0000:00:02.0
	Vendor string // 4 hexadecimal digits
	Device string // 4 hexadecimal digits
	Driver string // the kernel's driver that has it; empty: none
}

// maxDisplays bounds the devices that are listed.
const maxDisplays = 32

// Displays lists the devices for graphics on the PCI bus below root, in the order of the bus: its class of devices 03.
func Displays(root string) (list []Display) {
	folders, _ := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices/*")) // the pattern is a good one
	slices.Sort(folders)
	for _, folder := range folders {
		number := func(name string) string {
			return strings.TrimPrefix(strings.TrimSpace(read(folder, name)), "0x")
		}
		if !strings.HasPrefix(number("class"), "03") || len(list) == maxDisplays {
			continue
		}
		d := Display{BusID: filepath.Base(folder), Vendor: number("vendor"), Device: number("device")}
		if target, err := filepath.EvalSymlinks(filepath.Join(folder, "driver")); err == nil {
			d.Driver = filepath.Base(target)
		}
		list = append(list, d)
	}
	return list
}
