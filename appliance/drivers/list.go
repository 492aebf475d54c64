package drivers

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/host"
)

// vendors are the makers of devices that models can use, by their numbers on the PCI bus.
var vendors = map[string]string{"1002": "AMD", "10de": "NVIDIA", "8086": "Intel"}

// List describes the drivers of the box and its devices for graphics.
func (d *Drivers) List() admin.Drivers {
	d.mu.Lock()
	known, problem := d.known, d.problem
	d.mu.Unlock()
	list := admin.Drivers{Possible: d.config.Packaging.Kind == update.Image && problem == nil, Installed: []admin.Driver{}}
	switch {
	case d.config.Packaging.Kind != update.Image:
		list.Problem = "This box was not flashed: it uses the drivers of its system."
	case problem != nil:
		list.Problem = problem.Error()
	}
	seen := map[string]bool{}
	for _, e := range known.Entries {
		shown := admin.Driver{
			Name: e.Manifest.Name, Version: e.Manifest.Version, Kind: e.Manifest.Kind, Size: e.Manifest.Size + driver.HeaderBytes,
			Installed: e.Installed, Next: !seen[e.Manifest.Name],
		}
		seen[e.Manifest.Name] = true
		was := slices.IndexFunc(known.Mounted, func(m driver.Mounted) bool { return m.File == e.File })
		if was >= 0 {
			shown.Mounted, shown.Reason = known.Mounted[was].Mounted, known.Mounted[was].Reason
		}
		// one that this start has looked at and not taken does not become better by another
		if shown.Next && !shown.Mounted && was < 0 {
			list.Restart = true
		}
		list.Installed = append(list.Installed, shown)
	}
	for _, m := range known.Mounted {
		if m.Mounted && !seen[m.Name] {
			list.Restart = true
		}
		if m.File == "" { // of the boot partition
			list.Installed = append(list.Installed, admin.Driver{Name: m.Name, Reason: m.Reason})
		}
	}
	list.Devices = d.devices(known.Mounted)
	return list
}

// devices lists the devices for graphics, and who serves them.
func (d *Drivers) devices(mounted []driver.Mounted) []admin.GraphicsDevice {
	list := []admin.GraphicsDevice{}
	offers, found := d.catalogue(), d.config.Found()
	for _, p := range d.displays() {
		name, known := vendors[p.Vendor]
		if !known {
			name = p.Vendor
		}
		g := admin.GraphicsDevice{BusID: p.BusID, Vendor: name, Name: fmt.Sprintf("%s GPU %s:%s", name, p.Vendor, p.Device)}
		by := slices.IndexFunc(mounted, func(m driver.Mounted) bool { return m.Mounted && slices.Contains(m.Vendors, p.Vendor) })
		used := slices.IndexFunc(found, func(i edgewise.DeviceInfo) bool { return i.Used && i.BusID == p.BusID })
		switch {
		case by >= 0:
			g.Served, g.Text = true, fmt.Sprintf("driver %s %s", mounted[by].Name, mounted[by].Version)
		case used >= 0:
			g.Served, g.Text, g.Name = true, "the driver of the system", found[used].Description
		case !known:
			g.Text = "models cannot use it"
		case d.config.Packaging.Kind != update.Image:
			g.Text = "no driver of the system makes it usable for models"
		default:
			g.Offer = offer(offers, p)
			g.Text = missing(g)
		}
		list = append(list, g)
	}
	return list
}

// offer finds the released extension for a device.
func offer(list []released, p host.Display) *admin.DriverOffer {
	for _, r := range list {
		if slices.ContainsFunc(r.Manifest.Devices, func(d driver.Device) bool { return d.Vendor == p.Vendor }) {
			return &admin.DriverOffer{
				Name: r.Manifest.Name, Version: r.Manifest.Version, File: r.File, Size: r.Manifest.Size + driver.HeaderBytes,
			}
		}
	}
	return nil
}

// missing says what a device needs.
func missing(g admin.GraphicsDevice) string {
	if g.Offer == nil {
		return "no driver extension is installed for it"
	}
	return fmt.Sprintf("install its driver, %s (%d MB)", g.Offer.File, (g.Offer.Size+999_999)/1_000_000)
}

// Missing returns the devices that a driver extension would make usable for models.
func (d *Drivers) Missing() (list []admin.GraphicsDevice) {
	d.mu.Lock()
	known, problem := d.known, d.problem
	d.mu.Unlock()
	if d.config.Packaging.Kind != update.Image || problem != nil {
		return nil
	}
	for _, g := range d.devices(known.Mounted) {
		// one that is installed and waits for the next start, or says why it is not mounted, is told elsewhere
		installed := g.Offer != nil && slices.ContainsFunc(known.Entries, func(e driver.Entry) bool { return e.Manifest.Name == g.Offer.Name })
		if !g.Served && !installed && slices.Contains(slices.Collect(maps.Values(vendors)), g.Vendor) {
			list = append(list, g)
		}
	}
	return list
}
