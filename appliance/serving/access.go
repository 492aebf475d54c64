package serving

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/appliance/compiled"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/provider"
	"github.com/edgewise-ai/edgewise/gpu/vulkan"
)

// What compiles for models: NVIDIA's driver and TensorRT, whose files nobody checks, and Vulkan drivers, which check
// what they read.
const (
	cudaKind   = "cuda"
	vulkanKind = "vulkan"
)

// newCompiled makes what keeps what is compiled for models. The shaders that releases kept before it are removed.
func newCompiled(c config.Config, logger *slog.Logger) *compiled.Cache {
	cache := filepath.Join(c.DataDir, "cache")
	if err := os.RemoveAll(filepath.Join(cache, "shaders")); err != nil {
		logger.Warn("the shaders of an older release stay", "error", err)
	}
	return &compiled.Cache{
		Dir: filepath.Join(cache, "compiled"), Logger: logger,
		Kinds: []compiled.Kind{
			{Name: cudaKind, Bytes: int64(c.GPU.EngineCacheBytes), Sealed: true},
			{Name: vulkanKind, Bytes: int64(c.GPU.ShaderCacheBytes)},
		},
	}
}

// Sweep removes what was compiled for versions that are not stored any more.
func (d *Hardware) Sweep(stored func() []*edgewise.Version) { d.compiled.Sweep(stored) }

// makers are what compiles on the devices that were found.
func (r Report) makers() (list []compiled.Maker) {
	for i := range r.GPU.Devices {
		if r.GPU.Devices[i].Used {
			list = append(list, r.maker(&r.GPU.Devices[i]))
		}
	}
	return list
}

// maker is what compiles on a device: the device, its driver, the runtime, and on GPUs of CUDA NVIDIA's libraries.
func (r Report) maker(d *edgewise.DeviceInfo) compiled.Maker {
	parts := []string{cmp.Or(d.UUID, d.Name), d.Description, d.Driver, r.Runtime}
	if d.Device.Kind == edgewise.Vulkan {
		return compiled.Maker{Kind: vulkanKind, Text: strings.Join(parts, "\n")}
	}
	for _, l := range slices.Concat(r.GPU.Libraries, r.GPU.TensorRTLibraries) {
		parts = append(parts, identity(l))
	}
	return compiled.Maker{Kind: cudaKind, Text: strings.Join(parts, "\n")}
}

// identity is a text that changes with a library: its version is in the name of the file that its path leads to.
func identity(l provider.Library) string {
	target, err := filepath.EvalSymlinks(l.Path)
	if err != nil { // the dynamic linker knows where it is
		return l.Name
	}
	info, err := os.Stat(target)
	if err != nil {
		return l.Name
	}
	return fmt.Sprintf("%s %d %d", target, info.Size(), info.ModTime().UnixNano())
}

// place says what a process of a version on a device may read and use beside what every process of a model may, and
// keeps what is compiled for the version there: in a folder of its own, because that is code.
func (d *Hardware) place(v *edgewise.Version, on edgewise.Device) runner.Place {
	found := d.found()
	at := slices.IndexFunc(found.GPU.Devices, func(info edgewise.DeviceInfo) bool { return info.Device == on })
	if at < 0 {
		return runner.Place{}
	}
	kept := d.compiled.Open(v, found.maker(&found.GPU.Devices[at]))
	p := runner.Place{Access: d.accessTo(on)}
	p.Environment = append(slices.Clip(p.Environment), keepingEnvironment(on.Kind, kept)...)
	if kept != nil {
		p.Kept = kept
	}
	return p
}

// keepingEnvironment makes the driver of a kind of devices keep what it compiles in a folder. nil: there is none.
func keepingEnvironment(kind edgewise.DeviceKind, kept *compiled.Folder) []string {
	switch {
	case kind == edgewise.Vulkan && kept == nil:
		return nil
	case kind == edgewise.Vulkan:
		return vulkan.CacheEnvironment(kept.Path(), kept.Share())
	case kept == nil:
		return []string{"CUDA_CACHE_DISABLE=1"} // it would write into a home folder
	}
	return []string{"CUDA_CACHE_PATH=" + kept.Path(), "CUDA_CACHE_MAXSIZE=" + strconv.FormatInt(kept.Share()/2, 10)}
}

// accessTo is what a process on a device may read and use: its driver, and its device files.
func (d *Hardware) accessTo(on edgewise.Device) child.Access {
	if on.Kind == edgewise.Vulkan {
		return vulkanAccess(d.found().GPU, on)
	}
	return cudaAccess(d.found().GPU, d.environment)
}

// cudaAccess is that of a process on a GPU of NVIDIA: the libraries that were
// found, what their makers read of the machine, and the device files. Of /proc that is more than others may read; see
// decision 0023.
func cudaAccess(r *gpu.Report, environment []string) child.Access {
	a := child.Access{
		Environment: environment,
		ReadPaths:   []string{"/proc", "/sys", "/usr/local/cuda", "/usr/share/nvidia", "/etc/nvidia"},
		Devices: []string{
			"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvhost*", "/dev/nvmap", "/dev/nvgpu",
			"/dev/nvsciipc", "/dev/dri", "/dev/dxg",
		},
	}
	for _, path := range []string{r.Provider, r.TensorRT, r.DriverPath} {
		if path != "" {
			a.ReadPaths = append(a.ReadPaths, filepath.Dir(path))
		}
	}
	for _, l := range slices.Concat(r.Libraries, r.TensorRTLibraries) {
		if filepath.IsAbs(l.Path) {
			a.ReadPaths = append(a.ReadPaths, filepath.Dir(l.Path))
			if target, err := filepath.EvalSymlinks(l.Path); err == nil {
				a.ReadPaths = append(a.ReadPaths, filepath.Dir(target))
			}
		}
	}
	return a
}

// vulkanAccess is that of a process on a Vulkan device: its driver alone, and its device file alone, so that the driver
// finds no other device. NVIDIA's driver has device files of its own.
func vulkanAccess(r *gpu.Report, on edgewise.Device) child.Access {
	driver, device := r.VulkanOf(on.String())
	if driver == nil {
		return child.Access{}
	}
	a := child.Access{Environment: vulkan.Environment(driver.Manifest), ReadPaths: driver.ReadBy()}
	if device.Node != "" {
		a.Devices = append(a.Devices, device.Node)
	}
	if device.Vendor == "NVIDIA" {
		a.Devices = append(a.Devices, "/dev/nvidia*", "/dev/nvidia-caps/*")
	}
	return a
}
