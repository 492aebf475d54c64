package serving

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/compiled"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/provider"
)

// devicesOf makes hardware of what was found.
func devicesOf(t *testing.T, found Report) *Hardware {
	t.Helper()
	c := config.Config{DataDir: t.TempDir()}
	c.GPU.ShaderCacheBytes, c.GPU.EngineCacheBytes, c.GPU.Devices = 1<<20, 1<<21, []string{"GPU-1"}
	d := NewHardware(c, slog.New(slog.DiscardHandler))
	d.found = func() Report { return found }
	return d
}

// TestAProcessOnAVulkanDeviceUsesItsDriverAndItsDeviceFileAlone has two devices of two drivers.
func TestAProcessOnAVulkanDeviceUsesItsDriverAndItsDeviceFileAlone(t *testing.T) {
	device := func(node, vendor string) []gpu.VulkanDevice {
		return []gpu.VulkanDevice{{Node: node, DeviceInfo: edgewise.DeviceInfo{Vendor: vendor, Driver: "d 1"}}}
	}
	r := &gpu.Report{WebGPU: true}
	r.AddVulkan(gpu.Config{}, []gpu.VulkanDriver{
		{Manifest: "/usr/share/vulkan/icd.d/radeon.json", Library: "libvulkan_radeon.so", Devices: device("/dev/dri/renderD128", "AMD")},
		{Manifest: "/usr/share/vulkan/icd.d/nvidia.json", Devices: device("/dev/dri/renderD129", "NVIDIA")},
	})
	d := devicesOf(t, Report{GPU: r})
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "cat", Version: 1}}
	on := edgewise.Device{Kind: edgewise.Vulkan}
	a := d.place(v, on)
	if !slices.Equal(a.Devices, []string{"/dev/dri/renderD128"}) || len(a.WritePaths) != 0 || a.Network || a.Kept == nil {
		t.Fatalf("%+v", a)
	}
	environment := strings.Join(a.Environment, " ")
	for _, want := range []string{
		"VK_DRIVER_FILES=/usr/share/vulkan/icd.d/radeon.json", "NODEVICE_SELECT=1", "MESA_SHADER_CACHE_DIR=" + a.Kept.Path(),
		"MESA_SHADER_CACHE_MAX_SIZE=256K",
	} {
		if !strings.Contains(environment, want) {
			t.Errorf("%s lacks %s", environment, want)
		}
	}
	dog := &edgewise.Version{ID: edgewise.ModelID{Name: "dog", Version: 1}}
	if other := d.place(dog, on); other.Kept.Path() == a.Kept.Path() {
		t.Error("two versions share their shaders, which are code")
	}
	on.Index = 1
	if b := d.place(v, on); !slices.Equal(b.Devices, []string{"/dev/dri/renderD129", "/dev/nvidia*", "/dev/nvidia-caps/*"}) {
		t.Errorf("a device of NVIDIA: %v", b.Devices)
	}
	on.Index = 2
	if c := d.place(v, on); len(c.Devices)+len(c.ReadPaths) > 0 || c.Kept != nil {
		t.Errorf("a device that there is none of: %+v", c)
	}
}

// TestWhatIsCompiledBelongsToTheDriverAndTheLibraries changes each of them.
func TestWhatIsCompiledBelongsToTheDriverAndTheLibraries(t *testing.T) {
	dir := t.TempDir()
	library := filepath.Join(dir, "libnvinfer.so.10")
	if err := os.WriteFile(library, []byte("10.1"), 0o600); err != nil {
		t.Fatal(err)
	}
	card := edgewise.DeviceInfo{
		Device: edgewise.Device{Kind: edgewise.GPU}, Name: "gpu:0", UUID: "GPU-1", Driver: "CUDA driver 13.0", Used: true,
	}
	found := func() Report {
		return Report{Runtime: "ONNX Runtime 1", GPU: &gpu.Report{
			Devices: []edgewise.DeviceInfo{card}, TensorRTLibraries: []provider.Library{{Name: "libnvinfer.so.10", Path: library}},
		}}
	}
	d := devicesOf(t, found())
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "cat", Version: 1}}
	first := d.place(v, card.Device)
	environment := strings.Join(first.Environment, " ")
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=GPU-1", "CUDA_CACHE_PATH=" + first.Kept.Path(), "CUDA_CACHE_MAXSIZE=262144"} {
		if !strings.Contains(environment, want) {
			t.Errorf("%s lacks %s", environment, want)
		}
	}
	if !slices.Contains(first.ReadPaths, dir) {
		t.Errorf("the folder of TensorRT's libraries cannot be read: %v", first.ReadPaths)
	}
	same := func() bool { return d.place(v, card.Device).Kept.Path() == first.Kept.Path() }
	if !same() {
		t.Error("another folder the second time")
	}
	for what, change := range map[string]func() (back func()){
		"driver":  func() func() { card.Driver = "CUDA driver 13.1"; return func() { card.Driver = "CUDA driver 13.0" } },
		"device":  func() func() { card.UUID = "GPU-2"; return func() { card.UUID = "GPU-1" } },
		"library": func() func() { _ = os.WriteFile(library, []byte("10.12"), 0o600); return func() {} },
	} {
		back := change()
		now := found()
		if d.found = func() Report { return now }; same() {
			t.Errorf("another %s reads what was compiled for this one", what)
		}
		back()
	}
	d.compiled = &compiled.Cache{Logger: d.logger}
	if p := d.place(v, card.Device); p.Kept != nil || !slices.Contains(p.Environment, "CUDA_CACHE_DISABLE=1") {
		t.Errorf("without a folder: %+v", p)
	}
}

func TestAVersionStaysAwayFromADeviceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a avoided
		id, on := edgewise.ModelID{Name: "cat", Version: 1}, edgewise.Device{Kind: edgewise.Vulkan}
		if a.has(id, on) {
			t.Error("before anything has happened")
		}
		a.add(id, []edgewise.Device{on})
		if !a.has(id, on) || a.has(id, edgewise.Device{Kind: edgewise.GPU}) || a.has(edgewise.ModelID{Name: "dog", Version: 1}, on) {
			t.Error("that version, and that device")
		}
		time.Sleep(avoidTime + time.Second)
		if a.has(id, on) {
			t.Error("for ever")
		}
		a.add(edgewise.ModelID{Name: "dog", Version: 1}, []edgewise.Device{on})
		if len(a.until) != 1 {
			t.Errorf("%d entries, and one is over", len(a.until))
		}
	})
}

// TestOnlyAVersionThatLeavesTheKindOpenIsLoadedElsewhere: one that asks for a GPU waits for it.
func TestOnlyAVersionThatLeavesTheKindOpenIsLoadedElsewhere(t *testing.T) {
	on := []edgewise.Device{{Kind: edgewise.GPU}}
	for kind, want := range map[edgewise.InstanceKind]bool{edgewise.KindAuto: true, edgewise.KindGPU: false} {
		v := &edgewise.Version{
			ID:    edgewise.ModelID{Name: "cat", Version: 1},
			Model: &edgewise.Model{InstanceGroup: []edgewise.InstanceGroup{{Kind: kind}}},
		}
		l := New(Config{Devices: oneGPU(1 << 30), Logger: slog.New(slog.DiscardHandler)})
		f := &load{Loader: l, version: v, place: placement{devices: on}}
		again := f.again()
		if (again != nil) != want {
			t.Fatalf("%s is loaded again: %v", kind, again != nil)
		}
		if again == nil {
			continue
		}
		if list, err := l.usableFor(v)(); err != nil || len(list) != 1 {
			t.Errorf("before: %v, %v", list, err)
		}
		if list, _ := l.usableFor(v)(); !again() || len(list) != 1 {
			t.Error("it is not loaded again")
		}
		if list, _ := l.usableFor(v)(); len(list) != 0 {
			t.Errorf("it would be loaded on %v again", list)
		}
		f.place.devices = []edgewise.Device{{}}
		if f.again() != nil {
			t.Error("on the CPU there is no other place")
		}
	}
}
