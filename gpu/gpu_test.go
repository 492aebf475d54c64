package gpu_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

var control *fakegpu.Control

func TestMain(m *testing.M) {
	os.Exit(fakegpu.Main(m, func(c *fakegpu.Control) { control = c }))
}

// machine is a folder with ONNX Runtime, its provider, and the libraries that it needs, all of them made by the test.
type machine struct {
	t       *testing.T
	runtime string // folder
	cuda    string // folder
	config  gpu.Config
}

func newMachine(t *testing.T) *machine {
	control.Reset()
	m := &machine{t: t, runtime: t.TempDir(), cuda: t.TempDir()}
	for _, name := range []string{
		"libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9",
		"libcufft.so.12",
	} {
		m.library(m.cuda, name)
	}
	m.library(m.runtime, "libonnxruntime_providers_shared.so")
	m.library(m.runtime, "libonnxruntime_providers_cuda.so", "libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13")
	m.config = gpu.Config{
		Driver: fakegpu.Build(t, "libcuda"), Folders: []string{m.cuda},
		Runtime: filepath.Join(m.runtime, "libonnxruntime.so.1"), Root: t.TempDir(),
	}
	return m
}

func (m *machine) library(dir, name string, needs ...string) {
	m.t.Helper()
	arguments := []string{
		"-shared", "-fPIC", "-x", "c", "-Wl,-soname," + name, "-Wl,--no-as-needed", "-o",
		filepath.Join(dir, name), "/dev/null", "-x", "none",
	}
	for _, need := range needs {
		arguments = append(arguments, filepath.Join(m.cuda, need))
	}
	if out, err := exec.Command("cc", arguments...).CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
}

func TestGPUThatIsUsed(t *testing.T) {
	m := newMachine(t)
	control.Set(fakegpu.Devices, 2)
	r := gpu.Find(m.config)
	if r.Reason != "" || len(r.Devices) != 2 || r.Toolkit != 13 || !r.CuDNN() ||
		!strings.Contains(r.Driver, "CUDA driver 13.0 (") {
		t.Fatalf("%+v", r)
	}
	d := r.Devices[1]
	if !d.Used || d.Name != "gpu:1" || d.Description != "Fake GPU 1" || d.Capability != "9.0" || d.MemoryTotal != 1<<30 ||
		d.Cores != 8 || d.Device.Index != 1 {
		t.Errorf("%+v", d)
	}
	if d.Budget != 1<<29 {
		t.Errorf("budget of a small device: %d", d.Budget)
	}
	m.config.Budget = 100 << 20
	if d := gpu.Find(m.config).Devices[0]; d.Budget != 100<<20 {
		t.Errorf("budget of the configuration: %d", d.Budget)
	}
}

// TestTheOneReason takes away what a GPU needs, one thing after the other.
func TestTheOneReason(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*machine)
		want   string
	}{
		{"off", func(m *machine) { m.config.Off = true }, "gpu.mode is off"},
		{"no driver", func(m *machine) { m.config.Driver = "libnotthere.so" }, "no CUDA driver was found"},
		{"no device", func(*machine) { control.Set(fakegpu.Devices, 0) }, "the driver finds no GPU"},
		{"mismatch", func(*machine) { control.Set(fakegpu.InitCode, 803) }, "restart the machine"},
		{"compatibility package", func(*machine) { control.Set(fakegpu.InitCode, 804) }, "remove it"},
		{"kernel module", func(*machine) { control.Set(fakegpu.InitCode, 999) }, "the kernel module does not answer"},
		{
			"old driver", func(*machine) { control.Set(fakegpu.DriverVersion, 12040) },
			"it serves CUDA 12.4, and the provider needs CUDA 13",
		},
		{"no runtime", func(m *machine) { m.config.Runtime = "" }, "ONNX Runtime was not found"},
		{
			"no provider", func(m *machine) { remove(m, m.runtime, "libonnxruntime_providers_cuda.so") },
			"provider for CUDA is missing",
		},
		{
			"half a provider", func(m *machine) { remove(m, m.runtime, "libonnxruntime_providers_shared.so") },
			"libonnxruntime_providers_shared.so is not in",
		},
		{"broken library", func(m *machine) {
			if err := os.WriteFile(filepath.Join(m.cuda, "libcublas.so.13"), []byte("no library"), 0o600); err != nil {
				m.t.Fatal(err)
			}
		}, "a library of CUDA 13 is missing"},
		{
			"device that does not answer", func(*machine) { control.Fail("cuDeviceTotalMem_v2", 1, 999, false) },
			"gpu:0 does not answer",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			test.change(m)
			r := gpu.Find(m.config)
			if !strings.Contains(r.Reason, test.want) {
				t.Errorf("reason %q, want %q", r.Reason, test.want)
			}
			for _, d := range r.Devices {
				if d.Used || d.Reason == "" {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

func remove(m *machine, dir, name string) {
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		m.t.Fatal(err)
	}
}

func TestMissingCuDNNIsNoReason(t *testing.T) {
	m := newMachine(t)
	if err := os.WriteFile(filepath.Join(m.cuda, "libcudnn.so.9"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := gpu.Find(m.config); r.Reason != "" || r.CuDNN() {
		t.Errorf("%+v", r)
	}
}

func TestIntegratedDeviceHasWhatTheMachineHas(t *testing.T) {
	m := newMachine(t)
	if err := fakegpu.Sysroot("orin-jp6", m.config.Root); err != nil {
		t.Fatal(err)
	}
	control.Set(fakegpu.IsIntegrated, 1)
	control.Set(fakegpu.Memory, 61<<30)
	control.Set(fakegpu.Capability, 87)
	r := gpu.Find(m.config)
	available := int64(53901312 << 10)
	if want := available - available/10 - 512<<20; len(r.Devices) != 1 || r.Devices[0].Budget != want ||
		!r.Devices[0].Integrated || !strings.Contains(r.Board, "tegra234") {
		t.Errorf("%+v, want a budget of %d", r, want)
	}
}

func TestMeterReadsFromTimeToTime(t *testing.T) {
	root := t.TempDir()
	if err := fakegpu.Sysroot("orin-jp6", root); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nvml")
	if err := os.WriteFile(path, []byte("utilization 99\nmemory_utilization 1\nenergy 5000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKEGPU_NVML", path)
	gpu0 := edgewise.DeviceInfo{
		Device: edgewise.Device{Kind: edgewise.GPU}, UUID: "GPU-00000000-0000-0000-0000-000000000000",
	}
	library := fakegpu.Build(t, "libnvidia-ml")
	synctest.Test(t, func(t *testing.T) {
		m, err := gpu.NewMeter(library, root)
		if err != nil {
			t.Fatal(err)
		}
		if m.Last(gpu0.Device) != nil {
			t.Error("told something before it was read")
		}
		ctx, stop := context.WithCancel(t.Context())
		go m.Watch(ctx, []edgewise.DeviceInfo{gpu0}, time.Second)
		synctest.Wait()
		s := m.Last(gpu0.Device)
		if s == nil || *s.Utilization != 0.347 || *s.Energy != 5 || s.Mode != "MODE_30W" {
			t.Fatalf("the board goes first, and NVML adds what it does not tell: %+v", s)
		}
		if err := os.WriteFile(filepath.Join(root, "sys/class/devfreq/17000000.gpu/device/load"), []byte("900"),
			0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := m.Last(gpu0.Device); *s.Utilization != 0.9 {
			t.Errorf("load %v after a second", *s.Utilization)
		}
		stop()
	})
}

func TestMachineThatTellsNothing(t *testing.T) {
	m, err := gpu.NewMeter("libnotthere.so", t.TempDir())
	if err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("got %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	m.Watch(ctx, []edgewise.DeviceInfo{{UUID: "GPU-x"}}, time.Hour)
	if s := m.Last(edgewise.Device{}); s != nil {
		t.Errorf("told %+v", s)
	}
}
