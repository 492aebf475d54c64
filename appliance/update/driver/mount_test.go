package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

// machine is a machine that does not exist, with a box of drivers.
type machine struct {
	*box
	driver.Machine
	ran  []string
	fail string // a command that begins so fails
}

// newMachine makes one with devices for graphics of some vendors.
func newMachine(t *testing.T, vendors ...string) *machine {
	t.Helper()
	m := &machine{box: newBox(t)}
	m.Machine = driver.Machine{
		Folder: m.folder, System: running, Mount: filepath.Join(t.TempDir(), "mounts"), Root: t.TempDir(), Boot: t.TempDir(),
		Run: m.run, Say: func(text string) { t.Log(text) },
	}
	put := func(path, text string) {
		path = filepath.Join(m.Root, "sys", path)
		m.must(os.MkdirAll(filepath.Dir(path), 0o755))
		m.must(os.WriteFile(path, []byte(text), 0o644))
	}
	put("module/firmware_class/parameters/path", "")
	for i, vendor := range vendors {
		at := "bus/pci/devices/0000:0" + string(rune('0'+i)) + ":00.0/"
		put(at+"class", "0x030000\n")
		put(at+"vendor", "0x"+vendor+"\n")
		put(at+"device", "0x1234\n")
	}
	put("bus/pci/devices/0000:09:00.0/class", "0x020000\n")
	put("bus/pci/devices/0000:09:00.0/vendor", "0x10de\n")
	return m
}

func (m *machine) run(_ context.Context, name string, arguments ...string) ([]byte, error) {
	command := name + " " + strings.Join(arguments, " ")
	m.ran = append(m.ran, command)
	if m.fail != "" && strings.HasPrefix(command, m.fail) {
		return nil, errors.New(name + ": it failed")
	}
	return nil, nil
}

// start starts the machine again.
func (m *machine) start() (list []driver.Mounted, environment string) {
	m.t.Helper()
	m.ran = nil
	m.must(os.RemoveAll(m.Mount))
	m.must(m.Start(m.t.Context()))
	list, err := driver.ReadMounted(m.Mount)
	m.must(err)
	text, err := os.ReadFile(filepath.Join(m.Mount, driver.EnvironmentFile))
	m.must(err)
	return list, strings.ReplaceAll(string(text), m.Mount, "@")
}

func (m *machine) mounts(version string) driver.Mounted {
	m.t.Helper()
	list, _ := m.start()
	if len(list) != 1 || list[0].Mounted != (version != "") || version != "" && list[0].Version != version {
		m.t.Fatalf("mounted %+v: want %q", list, version)
	}
	return list[0]
}

func TestWhatIsMountedIsInTheEnvironment(t *testing.T) {
	tests := []struct {
		name        string
		vendors     []string
		environment string
		modules     []string
	}{
		{"AMD", []string{"1234", "1002"}, "@/mesa/share/vulkan/icd.d/radeon_icd.json", []string{"modprobe amdgpu"}},
		{"Intel", []string{"8086"}, "@/mesa/share/vulkan/icd.d/intel_icd.json", []string{"modprobe i915", "modprobe xe"}},
		{
			"both", []string{"8086", "1002"},
			"@/mesa/share/vulkan/icd.d/radeon_icd.json,@/mesa/share/vulkan/icd.d/intel_icd.json",
			[]string{"modprobe amdgpu", "modprobe i915", "modprobe xe"},
		},
		{"none", nil, "@/mesa/share/vulkan/icd.d/lvp_icd.json", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, tt.vendors...)
			m.must(m.install(m.driver("1", nil), running, ""))
			list, environment := m.start()
			want := "EDGEWISE_GPU_VULKAN=@/mesa/lib/libvulkan.so.1\nEDGEWISE_GPU_VULKAN_DRIVERS=" + tt.environment + "\n"
			if environment != want || len(list) != 1 || !list[0].Mounted {
				t.Errorf("environment %q: want %q; %+v", environment, want, list)
			}
			if len(m.ran) == 0 || !strings.HasPrefix(m.ran[0], "mount -t squashfs -o ro,nodev,nosuid,loop,offset=65536,sizelimit=140000 ") ||
				!slices.Equal(m.ran[1:], tt.modules) {
				t.Errorf("ran %q", m.ran)
			}
			m.Stop(t.Context())
			if last := m.ran[len(m.ran)-1]; last != "umount "+filepath.Join(m.Mount, "mesa") {
				t.Errorf("the stop ran %q", last)
			}
		})
	}
}

func TestNoDriverIsNoEnvironment(t *testing.T) {
	m := newMachine(t, "1002")
	list, environment := m.start()
	if len(list) != 0 || environment != "" || len(m.ran) != 0 {
		t.Errorf("%+v, %q, %q", list, environment, m.ran)
	}
}

// TestSlotAndDriverGoTogether updates a slot with its driver, goes back, and installs a third driver in the new slot.
func TestSlotAndDriverGoTogether(t *testing.T) {
	m := newMachine(t)
	old, later := running, running
	later.Version, later.Slot = "2.0.0", "B"
	m.must(m.install(m.driver("1", func(f *driver.Manifest) { f.Fits.Before = "2.0.0" }), old, ""))
	m.mounts("1")
	m.must(m.install(m.driver("2", func(f *driver.Manifest) { f.Fits.From = "2.0.0" }), old, "2.0.0"))
	m.mounts("1") // the update has not been started
	m.System = later
	m.mounts("2")
	m.System = old
	m.mounts("1")
	m.System = later
	m.mounts("2")
	m.must(m.install(m.driver("3", func(f *driver.Manifest) { f.Fits.From = "2.0.0" }), later, ""))
	m.want("3", "1") // the other slot keeps its driver
	m.mounts("3")
	m.System = old
	m.mounts("1")
}

func TestWhatIsNotMountedSaysWhy(t *testing.T) {
	path := func(m *machine) string {
		files, err := filepath.Glob(filepath.Join(m.folder.Path, "*.driver"))
		m.must(err)
		return files[0]
	}
	tests := []struct {
		name   string
		damage func(m *machine)
		want   string
	}{
		{"changed on the disk", func(m *machine) {
			f, err := os.OpenFile(path(m), os.O_WRONLY, 0)
			m.must(err)
			_, err = f.WriteAt([]byte("x"), driver.HeaderBytes+100)
			m.must(errors.Join(err, f.Close()))
		}, "was changed"},
		{"cut off on the disk", func(m *machine) { m.must(os.Truncate(path(m), driver.HeaderBytes+100)) }, "cut off"},
		{"gone from the disk", func(m *machine) { m.must(os.Remove(path(m))) }, "no such file"},
		{"its key was withdrawn", func(m *machine) { fakesystem.Key(m.t, m.folder.Keys) }, "does not know"},
		{"it does not fit any more", func(m *machine) { m.System.Level = "debian-14" }, "level"},
		{"it cannot be mounted", func(m *machine) { m.fail = "mount" }, "it failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, "1002")
			m.must(m.install(m.driver("1", nil), running, ""))
			tt.damage(m)
			list, environment := m.start()
			if len(list) != 1 || list[0].Mounted || !strings.Contains(list[0].Reason, tt.want) || environment != "" {
				t.Errorf("%+v, environment %q: want %q", list, environment, tt.want)
			}
			if slices.ContainsFunc(m.ran, func(c string) bool { return strings.HasPrefix(c, "modprobe") }) {
				t.Errorf("ran %q", m.ran)
			}
		})
	}
}

func TestTheVersionBeforeStandsInForADamagedOne(t *testing.T) {
	m := newMachine(t)
	m.must(m.install(m.driver("1", nil), running, ""))
	m.must(m.install(m.driver("2", nil), running, ""))
	s, err := m.folder.State()
	m.must(err)
	m.must(os.Truncate(filepath.Join(m.folder.Path, s.Entries[0].File), 10))
	m.mounts("1")
}

// TestModulesThatStopTwoStartsAreLeftOut ends starts while a module is loaded, as a driver that hangs the kernel does.
func TestModulesThatStopTwoStartsAreLeftOut(t *testing.T) {
	m := newMachine(t, "1002")
	m.must(m.install(m.driver("1", nil), running, ""))
	hang := func() {
		defer func() { _ = recover() }()
		m.Run = func(_ context.Context, name string, _ ...string) ([]byte, error) {
			if name == "modprobe" {
				panic("the kernel hangs")
			}
			return nil, nil
		}
		_ = m.Start(t.Context())
	}
	hang()
	m.Run = m.run
	m.mounts("1") // a start that goes well forgets it
	hang()
	hang()
	m.Run = m.run
	if d := m.mounts(""); !strings.Contains(d.Reason, "the last 2 starts ended while the modules") {
		t.Errorf("the reason is %q", d.Reason)
	}
	m.must(m.install(m.driver("2", nil), running, ""))
	m.mounts("2")
}

func TestAModuleThatFailsIsTold(t *testing.T) {
	m := newMachine(t, "8086")
	m.must(m.install(m.driver("1", func(f *driver.Manifest) {
		f.Devices[1].Modules = []string{"i915", "modules/own.ko"}
		f.Setup = []string{"bin/nodes", "-c"}
	}), running, ""))
	m.fail = "modprobe i915"
	d := m.mounts("1")
	at := filepath.Join(m.Mount, "mesa")
	if !strings.Contains(d.Reason, "it failed") || !slices.Equal(d.Vendors, []string{"8086"}) ||
		!slices.Equal(m.ran[2:], []string{"insmod " + at + "/modules/own.ko", at + "/bin/nodes -c"}) {
		t.Errorf("%+v, ran %q", d, m.ran)
	}
}

func TestFirmwareIsLinkedForTheKernel(t *testing.T) {
	m := newMachine(t, "1002")
	m.must(m.install(m.driver("1", func(f *driver.Manifest) { f.Firmware = "firmware" }), running, ""))
	m.Run = func(ctx context.Context, name string, arguments ...string) ([]byte, error) {
		if name == "mount" {
			m.must(os.MkdirAll(filepath.Join(m.Mount, "mesa/firmware/amdgpu"), 0o755))
		}
		return m.run(ctx, name, arguments...)
	}
	if d := m.mounts("1"); d.Reason != "" {
		t.Errorf("it says %q", d.Reason)
	}
	searched, err := os.ReadFile(filepath.Join(m.Root, "sys/module/firmware_class/parameters/path"))
	m.must(err)
	if info, err := os.Stat(filepath.Join(string(searched), "amdgpu")); err != nil || !info.IsDir() {
		t.Errorf("the kernel looks in %s: %v", searched, err)
	}
}

func TestTheBootPartitionOffersADriverOnce(t *testing.T) {
	m := newMachine(t)
	put := func(name string, text []byte) { m.must(os.WriteFile(filepath.Join(m.Boot, name), text, 0o600)) }
	put("edgewise-driver-mesa.driver", m.driver("1", nil))
	m.mounts("1")
	m.mounts("1")
	m.must(m.folder.Remove("mesa"))
	if list, _ := m.start(); len(list) != 0 {
		t.Errorf("what was removed is back: %+v", list)
	}
	put("edgewise-driver-mesa.driver", m.driver("2", nil)[:100_000])
	list, _ := m.start()
	if len(list) != 1 || list[0].Mounted || !strings.Contains(list[0].Reason, "cut off") {
		t.Errorf("one that was cut off: %+v", list)
	}
}
