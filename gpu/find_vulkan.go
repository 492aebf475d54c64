package gpu

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/provider"
	"github.com/edgewise-ai/edgewise/gpu/vulkan"
)

// VulkanDriver is a driver of Vulkan devices and what it finds. It is encoded as JSON between the process that asks it
// and the box.
type VulkanDriver struct {
	Manifest string         `json:"manifest"`
	Library  string         `json:"library,omitempty"` // of the driver
	Loader   string         `json:"loader,omitempty"`  // the file that was loaded
	Problem  string         `json:"problem,omitempty"` // why it finds nothing
	Devices  []VulkanDevice `json:"devices,omitempty"`
}

// VulkanDevice is a device of a driver.
type VulkanDevice struct {
	edgewise.DeviceInfo
	Node  string `json:"node,omitempty"`  // its device file for rendering
	Lacks string `json:"lacks,omitempty"` // what the provider for WebGPU needs of it
}

// VulkanDrivers returns the manifests of the drivers that AskVulkan is to be called for. There are none on a machine
// without device files of GPUs, unless the configuration names some.
func VulkanDrivers(c Config) []string {
	if c.Off || len(c.Manifests) == 0 && len(vulkan.Nodes(c.root())) == 0 {
		return nil
	}
	return vulkan.Manifests(c.Manifests, c.root())
}

// AskVulkan asks one driver for its devices. The driver may end the process or never answer, so a process of its own is
// the place to call it in, with vulkan.Environment.
func AskVulkan(c Config, manifest string) VulkanDriver {
	d := VulkanDriver{Manifest: manifest}
	if d.Problem = provider.Search(filepath.Base(manifest), []string{filepath.Dir(manifest)}).Problem; d.Problem != "" {
		return d
	}
	var err error
	if d.Library, err = vulkan.Library(manifest); err == nil {
		err = d.ask(c)
	}
	if err != nil {
		d.Problem = err.Error()
	}
	return d
}

func (d *VulkanDriver) ask(c Config) error {
	loader, err := vulkan.Open(vulkan.Candidates(c.Loader))
	if err != nil {
		return err
	}
	d.Loader = loader.Path()
	list, err := loader.Devices()
	for i := range list {
		d.Devices = append(d.Devices, describeVulkan(c, &list[i]))
	}
	return err
}

func describeVulkan(c Config, d *vulkan.Device) VulkanDevice {
	info := edgewise.DeviceInfo{
		Kind: edgewise.Vulkan.String(), Description: d.Name, Vendor: d.Vendor, Type: string(d.Type), Driver: d.Driver,
		UUID: d.UUID, BusID: d.BusID, MemoryTotal: d.Memory, Integrated: d.Type != vulkan.Discrete,
	}
	info.Budget = budget(c, info)
	return VulkanDevice{DeviceInfo: info, Node: node(c, d), Lacks: d.Lacks()}
}

// node returns the device file of a device, empty when it has none.
func node(c Config, d *vulkan.Device) string {
	for _, path := range vulkan.Nodes(c.root()) {
		var stat unix.Stat_t
		if unix.Stat(path, &stat) == nil && d.Major != 0 &&
			int64(unix.Major(stat.Rdev)) == d.Major && int64(unix.Minor(stat.Rdev)) == d.Minor {
			return path
		}
	}
	return ""
}

// AddVulkan adds what drivers have found: their devices behind those of CUDA, software devices last, each with the one
// reason why it is not used.
func (r *Report) AddVulkan(c Config, drivers []VulkanDriver) {
	r.Vulkan = drivers
	var list []*VulkanDevice
	for i := range drivers {
		for n := range drivers[i].Devices {
			list = append(list, &drivers[i].Devices[n])
		}
	}
	isSoftware := func(d *VulkanDevice) bool { return d.Type == string(vulkan.Software) }
	hardware := slices.DeleteFunc(slices.Clone(list), isSoftware)
	list = append(hardware, slices.DeleteFunc(list, func(d *VulkanDevice) bool { return !isSoftware(d) })...)
	for n, d := range list {
		d.Device = edgewise.Device{Kind: edgewise.Vulkan, Index: n}
		d.Name = d.Device.String()
		d.Reason = r.unusable(c, d)
		d.Used = d.Reason == ""
		r.Devices = append(r.Devices, d.DeviceInfo)
	}
	if len(drivers) > 0 && r.Reason != "" {
		r.Reason = r.verdictWith(list)
	}
}

// unusable says why a device is not used; empty when it is.
func (r *Report) unusable(c Config, d *VulkanDevice) string {
	switch {
	case d.Type == string(vulkan.Software) && !c.Software:
		return fmt.Sprintf("%s (%s) computes on the processor: gpu.software is false", d.Name, d.Description)
	case d.Lacks != "":
		return fmt.Sprintf("%s (%s) lacks %s, which ONNX Runtime's provider for WebGPU needs: a newer driver may have it",
			d.Name, d.Description, d.Lacks)
	case !r.WebGPU:
		return "this build of ONNX Runtime has no provider for WebGPU"
	}
	return ""
}

// verdictWith adds to the reason why CUDA is not used that of Vulkan; empty when a device is used.
func (r *Report) verdictWith(list []*VulkanDevice) string {
	reason := ""
	for _, d := range list {
		if d.Used {
			return ""
		}
		reason = cmp.Or(reason, d.Reason)
	}
	for i := range r.Vulkan {
		if d := &r.Vulkan[i]; d.Problem != "" && reason == "" {
			reason = fmt.Sprintf("%s: %s", filepath.Base(d.Manifest), d.Problem)
		}
	}
	return fmt.Sprintf("%s; Vulkan: %s", r.Reason, cmp.Or(reason, "its drivers find no device"))
}

// VulkanOf returns a Vulkan device and its driver; nil when there is none of that name.
func (r *Report) VulkanOf(name string) (*VulkanDriver, *VulkanDevice) {
	for i := range r.Vulkan {
		for n := range r.Vulkan[i].Devices {
			if d := &r.Vulkan[i].Devices[n]; d.Name == name {
				return &r.Vulkan[i], d
			}
		}
	}
	return nil, nil
}

// ReadBy is what a process reads beside the system's libraries to use the device: the manifest and the driver's folder,
// and what Mesa's drivers read of the machine.
func (d *VulkanDriver) ReadBy() []string {
	list := []string{
		d.Manifest, "/usr/share/drirc.d", "/etc/drirc", "/usr/share/libdrm", "/sys/dev/char", "/sys/class/drm",
		"/sys/bus/pci/devices", "/sys/devices",
	}
	for _, path := range []string{d.Library, d.Loader} {
		if !filepath.IsAbs(path) {
			continue
		}
		list = append(list, filepath.Dir(path))
		if target, err := filepath.EvalSymlinks(path); err == nil {
			list = append(list, filepath.Dir(target))
		}
	}
	return slices.DeleteFunc(list, func(path string) bool { _, err := os.Stat(path); return err != nil })
}
