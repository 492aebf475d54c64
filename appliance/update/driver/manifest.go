package driver

import (
	"path"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/pattern"
)

// The kinds of drivers.
const (
	Vulkan = "vulkan" // a Vulkan loader with the manifests of its drivers
	CUDA   = "cuda"   // NVIDIA's driver and CUDA's libraries
)

// Bounds of a manifest and of what it names.
const (
	maxDevices = 16 // entries of devices
	maxNames   = 16 // modules, manifests or folders of one entry
	maxPath    = 200
)

// Manifest is what a driver extension says of itself.
type Manifest struct {
	Name         string   `json:"name"`    // one driver of a name is mounted at a time
	Version      string   `json:"version"` // in Debian's form
	Kind         string   `json:"kind"`    // vulkan or cuda
	Architecture string   `json:"architecture"`
	Fits         Fits     `json:"fits"`
	Devices      []Device `json:"devices"`
	Firmware     string   `json:"firmware,omitempty"`  // folder whose entries the kernel finds as firmware
	Loader       string   `json:"loader,omitempty"`    // libvulkan.so.1
	Driver       string   `json:"driver,omitempty"`    // libcuda.so.1
	Telemetry    string   `json:"telemetry,omitempty"` // libnvidia-ml.so.1
	Libraries    []string `json:"libraries,omitempty"` // folders of CUDA's libraries
	Setup        []string `json:"setup,omitempty"`     // a program of the extension and its arguments, run once its modules are loaded
	Size         int64    `json:"size"`                // bytes of the file system
	SHA256       string   `json:"sha256"`              // of the file system, in hexadecimal digits
}

// Fits says which slots an extension is for. An empty field asks for nothing.
type Fits struct {
	Level  string `json:"level"`            // SYSEXT_LEVEL of the slot's os-release: the system whose libraries it needs
	From   string `json:"from,omitempty"`   // first version of a slot
	Before string `json:"before,omitempty"` // first version of a slot that it does not fit any more
	Kernel string `json:"kernel,omitempty"` // release of the kernel, for modules
}

// Device is a kind of hardware that an extension serves.
type Device struct {
	Vendor    string   `json:"vendor,omitempty"`    // on the PCI bus, 4 hexadecimal digits; empty: computes on the processor
	Modules   []string `json:"modules,omitempty"`   // of the kernel, in order: names, or files of the extension ending in .ko
	Manifests []string `json:"manifests,omitempty"` // of Vulkan drivers
}

// System is what an extension has to fit.
type System struct {
	Architecture string
	Level        string
	Version      string // of the slot
	Kernel       string
	Slot         string // A or B
}

var (
	nameForm    = pattern.New(`^[a-z][a-z0-9-]{0,30}$`)
	versionForm = pattern.New(`^[0-9A-Za-z][0-9A-Za-z.+~-]{0,63}$`)
	vendorForm  = pattern.New(`^[0-9a-f]{4}$`)
	moduleForm  = pattern.New(`^[a-z][a-z0-9_-]{0,63}$`)
	digestForm  = pattern.New(`^[0-9a-f]{64}$`)
)

// Check returns nil when every field is within its bounds. Error: Invalid, which names the field.
func (m *Manifest) Check() error {
	invalid := func(field, value, want string) error {
		return edgewise.Errorf("driver.Check", edgewise.Invalid, "the manifest of the driver extension: %s is %.100q: want %s",
			field, value, want)
	}
	switch {
	case !nameForm.MatchString(m.Name):
		return invalid("name", m.Name, "small letters, digits and '-', at most 31")
	case !versionForm.MatchString(m.Version):
		return invalid("version", m.Version, "a version of at most 64 letters, digits and .+~-")
	case m.Kind != Vulkan && m.Kind != CUDA:
		return invalid("kind", m.Kind, "vulkan or cuda")
	case m.Architecture == "":
		return invalid("architecture", m.Architecture, "amd64 or arm64")
	case m.Fits.Level == "":
		return invalid("fits.level", m.Fits.Level, "the level of the system")
	case !digestForm.MatchString(m.SHA256):
		return invalid("sha256", m.SHA256, "64 hexadecimal digits")
	case m.Size <= 0 || m.Size > MaxBytes-HeaderBytes:
		return edgewise.Errorf("driver.Check", edgewise.TooLarge, "the driver extension has %d bytes: want 1 to %d", m.Size,
			int64(MaxBytes-HeaderBytes)).WithLimit(MaxBytes - HeaderBytes)
	case len(m.Devices) == 0 || len(m.Devices) > maxDevices:
		return edgewise.Errorf("driver.Check", edgewise.Invalid, "the manifest of the driver extension has %d devices: want 1 to %d",
			len(m.Devices), maxDevices)
	}
	for _, d := range m.Devices {
		if d.Vendor != "" && !vendorForm.MatchString(d.Vendor) {
			return invalid("vendor", d.Vendor, "4 small hexadecimal digits")
		}
	}
	for _, p := range m.paths() {
		if !isInside(p) {
			return invalid("path", p, "a clean path within the extension")
		}
	}
	for _, d := range m.Devices {
		for _, module := range d.Modules {
			if !strings.HasSuffix(module, ".ko") && !moduleForm.MatchString(module) {
				return invalid("module", module, "the name of a module, or a file ending in .ko")
			}
		}
		if len(d.Modules) > maxNames || len(d.Manifests) > maxNames {
			return invalid("devices", d.Vendor, "at most 16 modules and 16 manifests for each")
		}
	}
	if len(m.Libraries) > maxNames || len(m.Setup) > maxNames {
		return invalid("libraries or setup", m.Name, "at most 16 folders, and 16 words")
	}
	return nil
}

// paths lists everything in the manifest that names a file or folder of the extension.
func (m *Manifest) paths() []string {
	list := slices.Clone(m.Libraries)
	single := []string{m.Firmware, m.Loader, m.Driver, m.Telemetry}
	if len(m.Setup) > 0 {
		single = append(single, m.Setup[0])
	}
	for _, p := range single {
		if p != "" {
			list = append(list, p)
		}
	}
	for _, d := range m.Devices {
		list = append(list, d.Manifests...)
		for _, module := range d.Modules {
			if strings.HasSuffix(module, ".ko") {
				list = append(list, module)
			}
		}
	}
	return list
}

// isInside tells whether p is a clean relative path that leads to nothing outside. A comma would end it in a list.
func isInside(p string) bool {
	return p != "" && len(p) <= maxPath && path.Clean(p) == p && !path.IsAbs(p) && p != "." && p != ".." &&
		!strings.HasPrefix(p, "../") && !strings.ContainsAny(p, ",\n\x00 ")
}

// Fit returns nil when the extension is for a system. Error: Conflict, with the reason.
func (m *Manifest) Fit(s System) error {
	const op = "driver.Fit"
	subject := "driver " + m.Name + " " + m.Version
	switch {
	case m.Architecture != s.Architecture:
		return edgewise.Errorf(op, edgewise.Conflict, "%s is for %s: this machine is %s", subject, m.Architecture, s.Architecture)
	case m.Fits.Level != s.Level:
		return edgewise.Errorf(op, edgewise.Conflict, "%s is for slots of level %q: this one has %q", subject, m.Fits.Level, s.Level)
	case m.Fits.Kernel != "" && m.Fits.Kernel != s.Kernel:
		return edgewise.Errorf(op, edgewise.Conflict, "%s is for the kernel %s: this slot has %s", subject, m.Fits.Kernel, s.Kernel)
	case m.Fits.From != "" && update.Compare(s.Version, m.Fits.From) < 0:
		return edgewise.Errorf(op, edgewise.Conflict, "%s is for version %s and later: this slot is %s", subject, m.Fits.From, s.Version)
	case m.Fits.Before != "" && update.Compare(s.Version, m.Fits.Before) >= 0:
		return edgewise.Errorf(op, edgewise.Conflict, "%s is for versions before %s: this slot is %s", subject, m.Fits.Before, s.Version)
	}
	return nil
}
