package gpu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/test/fakevulkan"
)

// TestAMachineWithoutGPUsAsksNoVulkanDriver: drivers may be installed on a machine without a GPU, and cost nothing there.
func TestAMachineWithoutGPUsAsksNoVulkanDriver(t *testing.T) {
	c := gpu.Config{Root: t.TempDir()}
	write := func(path string) {
		path = filepath.Join(c.Root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("usr/share/vulkan/icd.d/radeon.json")
	if list := gpu.VulkanDrivers(c); len(list) != 0 {
		t.Errorf("without device files: %v", list)
	}
	write("dev/dri/renderD128")
	if list := gpu.VulkanDrivers(c); len(list) != 1 {
		t.Errorf("with a device file: %v", list)
	}
	if c.Off = true; len(gpu.VulkanDrivers(c)) != 0 {
		t.Error("GPUs are off")
	}
	c = gpu.Config{Root: t.TempDir(), Manifests: []string{"/x.json"}}
	if list := gpu.VulkanDrivers(c); len(list) != 1 {
		t.Errorf("the configuration names a driver: %v", list)
	}
}

// TestVulkanDevicesStandBehindOthersWithTheirReasons asks a fake driver and adds what it finds.
func TestVulkanDevicesStandBehindOthersWithTheirReasons(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "fake.json")
	if err := os.WriteFile(manifest, []byte(`{"ICD": {"library_path": "libfake.so"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := gpu.Config{Manifests: []string{manifest}, WebGPU: true, Loader: fakevulkan.Loader(
		t, 0,
		fakevulkan.Device{Name: "llvmpipe", Vendor: 0x10005, Type: 4, API: 3, Missing: -1, Memory: 8 << 10},
		fakevulkan.Device{Name: "Radeon", Vendor: 0x1002, Type: 2, API: 3, Missing: -1, Memory: 8 << 10},
		fakevulkan.Device{Name: "Old", Vendor: 0x8086, Type: 1, API: 3, Missing: 33, Memory: 8 << 10},
	)}
	found := gpu.AskVulkan(c, manifest)
	if found.Problem != "" || len(found.Devices) != 3 {
		t.Fatalf("%+v", found)
	}
	report := func(c gpu.Config) *gpu.Report {
		again := found
		again.Devices = append([]gpu.VulkanDevice{}, found.Devices...)
		r := &gpu.Report{WebGPU: c.WebGPU, Reason: "no CUDA driver was found"}
		r.AddVulkan(c, []gpu.VulkanDriver{again})
		return r
	}
	r := report(c)
	names := ""
	for _, d := range r.Devices {
		names += d.Device.String() + " " + d.Description + "; "
	}
	if names != "vulkan:0 Radeon; vulkan:1 Old; vulkan:2 llvmpipe; " || r.Reason != "" {
		t.Errorf("%s %s", names, r.Reason)
	}
	radeon, old, software := r.Devices[0], r.Devices[1], r.Devices[2]
	if !radeon.Used || radeon.Vendor != "AMD" || radeon.Type != "discrete" || radeon.Driver != "fakev 25.0.7" ||
		radeon.Budget != 8<<30-8<<30/10-512<<20 || radeon.Integrated {
		t.Errorf("%+v", radeon)
	}
	if old.Used || !strings.Contains(old.Reason, "lacks shaderUniformBufferArrayDynamicIndexing, which ONNX Runtime's") {
		t.Errorf("%+v", old)
	}
	if software.Used || !strings.Contains(software.Reason, "computes on the processor: gpu.software is false") {
		t.Errorf("%+v", software)
	}
	if driver, d := r.VulkanOf("vulkan:2"); driver == nil || driver.Manifest != manifest || d.Description != "llvmpipe" {
		t.Errorf("vulkan:2 is %+v of %+v", d, driver)
	}
	if c.Software = true; !report(c).Devices[2].Used {
		t.Error("a software device is not used where the configuration says so")
	}
	c.WebGPU = false
	if r := report(c); r.Devices[0].Used || !strings.Contains(r.Reason, "no CUDA driver was found; Vulkan: this build of ONNX Runtime") {
		t.Errorf("%+v", r)
	}
}

func TestDevicesTravelByTheirNames(t *testing.T) {
	for _, d := range []edgewise.Device{{}, {Kind: edgewise.GPU, Index: 12}, {Kind: edgewise.Vulkan}} {
		text, err := d.MarshalText()
		var got edgewise.Device
		if err != nil || got.UnmarshalText(text) != nil || got != d {
			t.Errorf("%v became %v", d, got)
		}
	}
	for _, text := range []string{"", "gpu", "gpu:-1", "gpu:01", "vulkan:1 ", "cpu:0", "metal:0"} {
		var d edgewise.Device
		if err := d.UnmarshalText([]byte(text)); edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%q is %v", text, d)
		}
	}
}
