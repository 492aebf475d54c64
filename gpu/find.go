package gpu

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/jetson"
	"github.com/edgewise-ai/edgewise/gpu/provider"
	"github.com/edgewise-ai/edgewise/host"
)

// Config says where to look.
type Config struct {
	Off       bool     // do not look, and say so
	Driver    string   // path of the CUDA driver; empty: searched, see cuda.Candidates
	Folders   []string // in which NVIDIA's libraries are looked for first, see provider.Folders
	Runtime   string   // the file of ONNX Runtime that was loaded; its providers stand beside it
	WebGPU    bool     // ONNX Runtime has a provider for WebGPU
	Loader    string   // path of the Vulkan loader; empty: searched
	Manifests []string // of Vulkan drivers; empty: searched
	Software  bool     // Vulkan devices that compute on the processor are used

	Root   string // of the file system; empty: "/"
	Budget int64  // bytes of each device that models may take; 0: see budget
}

// Report is what was found. It is encoded as JSON between the process that looks and the box.
type Report struct {
	Driver            string                `json:"driver,omitempty"` // what was loaded, and from where
	DriverPath        string                `json:"driver_path,omitempty"`
	Toolkit           int                   `json:"toolkit,omitempty"`            // major version of CUDA that the provider was built with
	Provider          string                `json:"provider,omitempty"`           // ONNX Runtime's library for CUDA
	Code              string                `json:"code,omitempty"`               // the compute capabilities that it has code for
	TensorRT          string                `json:"tensorrt,omitempty"`           // its library for TensorRT, when all it needs is there
	TensorRTLibraries []provider.Library    `json:"tensorrt_libraries,omitempty"` // that it needs
	WebGPU            bool                  `json:"webgpu,omitempty"`             // ONNX Runtime has a provider for WebGPU
	Vulkan            []VulkanDriver        `json:"vulkan,omitempty"`             // that were asked for devices
	Board             string                `json:"board,omitempty"`              // of a Jetson
	Libraries         []provider.Library    `json:"libraries,omitempty"`          // that the provider needs
	Devices           []edgewise.DeviceInfo `json:"devices"`                      // the GPUs
	Reason            string                `json:"reason,omitempty"`             // the one reason why none is used; empty when one is
}

// Find looks at the machine. It opens the driver and NVIDIA's libraries and leaves them open, so a process of its own
// is the place to call it in.
func Find(c Config) *Report {
	r := &Report{WebGPU: c.WebGPU}
	if c.Off {
		r.Reason = "GPUs are disabled: gpu.mode is off"
		return r
	}
	board := jetson.Find(c.root())
	if board != nil {
		r.Board = board.String()
	}
	driver, err := cuda.Open(cuda.Candidates(c.Driver))
	if err != nil {
		r.Reason = explain(err)
		return r
	}
	r.Driver, r.DriverPath = driver.String(), driver.Path()
	if r.Devices, err = devices(c, driver); err != nil {
		r.Reason = err.Error()
		return r
	}
	file, reason := r.libraries(c, driver)
	for i := range r.Devices {
		d := &r.Devices[i]
		d.Driver = r.Driver
		if d.Reason == "" {
			d.Reason = reason
		}
		if d.Reason == "" {
			d.Reason = lacksCode(d, file)
		}
		d.Used = d.Reason == ""
	}
	r.Reason = r.verdict(reason)
	return r
}

func (c Config) root() string {
	if c.Root == "" {
		return "/"
	}
	return c.Root
}

// explain adds to an error of the driver what an operator can do about it.
func explain(err error) string {
	var result cuda.Result
	if !errors.As(err, &result) {
		return err.Error()
	}
	switch result {
	case cuda.NoDevice:
		return err.Error() + ": the driver finds no GPU; in a container, GPUs have to be handed to it"
	case cuda.SystemDriverMismatch:
		return err.Error() + ": the driver was updated; restart the machine"
	case cuda.CompatNotSupportedOnDevice:
		return err.Error() + ": a compatibility package stands before the driver; remove it"
	case cuda.Unknown:
		return err.Error() + ": the kernel module does not answer; see the kernel's log"
	}
	return err.Error()
}

// devices describes every device of the driver.
func devices(c Config, driver *cuda.Driver) ([]edgewise.DeviceInfo, error) {
	n, err := driver.NumDevices()
	if err != nil {
		return nil, err
	}
	list := make([]edgewise.DeviceInfo, n)
	for i := range n {
		d, err := driver.GetDevice(i)
		if err != nil {
			return nil, err
		}
		list[i] = describe(c, i, d)
	}
	return list, nil
}

// describe asks a device for what it is. One that does not answer is not used.
func describe(c Config, index int, d cuda.Device) edgewise.DeviceInfo {
	info := edgewise.DeviceInfo{Device: edgewise.Device{Kind: edgewise.GPU, Index: index}, Kind: "gpu"}
	info.Name = info.Device.String()
	var errs [6]error
	var major, minor, integrated int
	info.Description, errs[0] = d.Name()
	info.UUID, errs[1] = d.UUID()
	info.MemoryTotal, errs[2] = d.TotalMem()
	major, minor, errs[3] = d.ComputeCapability()
	info.Cores, errs[4] = d.Attribute(cuda.MultiprocessorCount)
	integrated, errs[5] = d.Attribute(cuda.Integrated)
	if err := errors.Join(errs[:]...); err != nil {
		info.Reason = fmt.Sprintf("%s does not answer: %v", info.Name, err)
		return info
	}
	info.BusID, _ = d.PCIBusID() // devices beside a bus have none
	info.Capability = fmt.Sprintf("%d.%d", major, minor)
	info.Integrated = integrated != 0
	info.Budget = budget(c, info)
	return info
}

// reserved is what a device's memory has to hold beside models: the contexts of processes, and workspaces that are not
// counted as a model's.
const reserved = 512 << 20

// budget is what models may take of a device: what the configuration says; otherwise all but a tenth and what is
// reserved. An integrated device has what the machine has available.
func budget(c Config, d edgewise.DeviceInfo) int64 {
	most := d.MemoryTotal
	if _, available, ok := host.Memory(c.root()); ok && d.Integrated {
		most = min(most, available)
	}
	if c.Budget > 0 {
		return min(c.Budget, most)
	}
	return max(most-most/10-reserved, most/2)
}

// libraries looks at the provider and at what it needs. reason says why no device can be used, empty when one can.
func (r *Report) libraries(c Config, driver *cuda.Driver) (*provider.File, string) {
	if c.Runtime == "" {
		return nil, "ONNX Runtime was not found"
	}
	dir := filepath.Dir(c.Runtime)
	file, err := provider.Read(dir, provider.CUDA)
	if err != nil {
		return nil, fmt.Sprintf(
			"ONNX Runtime's provider for CUDA is missing: %s is not in %s; run \"make runtime-gpu\", or see docs/gpu.md",
			provider.CUDA, dir)
	}
	r.Provider, r.Code, r.Toolkit = file.Path, file.Code.String(), file.Toolkit()
	if newest := int(driver.Version()) / 1000; r.Toolkit > newest {
		return file, fmt.Sprintf(
			"the driver is too old: it serves CUDA %v, and the provider needs CUDA %d; update the driver",
			driver.Version(), r.Toolkit)
	}
	if _, err := provider.Read(dir, provider.Shared); err != nil {
		return file, fmt.Sprintf("%s is not in %s; run \"make runtime-gpu\"", provider.Shared, dir)
	}
	folders := provider.Folders(c.Folders, dir)
	r.Libraries, err = file.OpenAll(folders)
	if err != nil {
		return file, fmt.Sprintf("a library of CUDA %d is missing: %v; install it, or name its folder in gpu.libraries",
			r.Toolkit, err)
	}
	r.tensorRT(dir, folders)
	return file, ""
}

// tensorRT notes the provider for TensorRT when it and all that it needs are there.
func (r *Report) tensorRT(dir string, folders []string) {
	file, err := provider.Read(dir, provider.TensorRT)
	if err != nil {
		return
	}
	var list []provider.Library
	for _, name := range file.Needed {
		l := provider.Search(name, folders)
		if l.Problem != "" {
			return
		}
		list = append(list, l)
	}
	r.TensorRT, r.TensorRTLibraries = file.Path, list
}

// lacksCode says why a device cannot run the provider's code; empty when it can, or when it cannot be told.
func lacksCode(d *edgewise.DeviceInfo, file *provider.File) string {
	if file == nil || file.Code.None() {
		return ""
	}
	var major, minor int
	if _, err := fmt.Sscanf(d.Capability, "%d.%d", &major, &minor); err != nil ||
		file.Code.Runs(major, minor, d.Integrated) {
		return ""
	}
	return fmt.Sprintf("%s (%s) has compute capability %s, and the provider has code for %v", d.Name, d.Description,
		d.Capability, file.Code)
}

// verdict is the reason for the whole machine: that of all devices, or that of the first.
func (r *Report) verdict(reason string) string {
	if len(r.Devices) == 0 {
		return "the CUDA driver finds no GPU"
	}
	for _, d := range r.Devices {
		if d.Used {
			return ""
		}
	}
	if reason != "" {
		return reason
	}
	return r.Devices[0].Reason
}

// CuDNN tells whether the library for convolutions was found.
func (r *Report) CuDNN() bool {
	for _, l := range r.Libraries {
		if l.Name == provider.CuDNN {
			return l.Problem == ""
		}
	}
	return false
}
