package cuda_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(broken, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"no driver", []string{"libnotthere.so.7"}, "no CUDA driver was found (libnotthere.so.7)"},
		{"no library", []string{broken}, "cannot be loaded as a CUDA driver"},
		{"another library", []string{"libm.so.6"}, "does not have cuInit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := cuda.Open(test.candidates)
			if err == nil || edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestDriverThatRefusesToStart(t *testing.T) {
	for code, want := range map[cuda.Result]string{
		cuda.NoDevice: "no device", cuda.SystemDriverMismatch: "do not match", cuda.Unknown: "unknown error",
		cuda.CompatNotSupportedOnDevice: "compatibility",
	} {
		control.Reset()
		control.Set(fakegpu.InitCode, int64(code))
		_, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
		var result cuda.Result
		if !errors.As(err, &result) || result != code || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "13.0") {
			t.Errorf("code %d: got %v", code, err)
		}
	}
}

func TestDeviceIsDescribed(t *testing.T) {
	d := driver(t)
	control.Set(fakegpu.Devices, 2)
	control.Set(fakegpu.Capability, 87)
	n, err := d.NumDevices()
	if err != nil || n != 2 || d.Version().String() != "13.0" {
		t.Fatalf("%d devices under %v: %v", n, d, err)
	}
	device, err := d.GetDevice(1)
	if err != nil {
		t.Fatal(err)
	}
	name, err1 := device.Name()
	uuid, err2 := device.UUID()
	bus, err3 := device.PCIBusID()
	memory, err4 := device.TotalMem()
	major, minor, err5 := device.ComputeCapability()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	if name != "Fake GPU 1" || uuid != "GPU-00000000-0000-0000-0000-000000000001" || bus != "0000:02:00.0" ||
		memory != 1<<30 || major != 8 || minor != 7 {
		t.Errorf("%s %s %s %d %d.%d", name, uuid, bus, memory, major, minor)
	}
	if _, err := d.GetDevice(2); edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("third of two devices: %v", err)
	}
}
