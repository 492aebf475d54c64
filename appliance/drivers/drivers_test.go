package drivers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

// flashed is a box that was flashed, with a helper and devices for graphics that do not exist.
type flashed struct {
	*Drivers
	t      *testing.T
	sign   func([]byte) string
	mounts string
}

func newFlashed(t *testing.T, change func(*Config), vendors ...string) *flashed {
	t.Helper()
	dir, err := os.MkdirTemp("", "drivers") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &flashed{t: t, mounts: filepath.Join(dir, "mounts")}
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i, vendor := range vendors {
		at := "sys/bus/pci/devices/0000:0" + string(rune('0'+i)) + ":00.0/"
		put(at+"class", "0x030000\n")
		put(at+"vendor", "0x"+vendor+"\n")
		put(at+"device", "0x73df\n")
	}
	put("mounts/empty", "")
	b.sign = fakesystem.Key(t, dir)
	manifest := driver.Manifest{
		Name: "mesa", Version: "25.0.7", Size: 71_000_000 - driver.HeaderBytes,
		Devices: []driver.Device{{Vendor: "1002"}, {Vendor: "8086"}},
	}
	text, err := json.Marshal([]released{{"edgewise-driver-mesa_25.0.7_amd64.driver", manifest}})
	if err != nil {
		t.Fatal(err)
	}
	put("drivers.json", string(text))
	put("received/empty", "")
	service, err := helper.New(helper.Config{
		Folder: filepath.Join(dir, "helper"), Keys: dir, Data: dir, Image: true, User: uint32(os.Getuid()), Mounts: b.mounts,
		System: driver.System{Architecture: "amd64", Level: fakesystem.Level, Version: "1.0.0"}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	fakesystem.Serve(t, socket, func(ctx context.Context, l *net.UnixListener, linger time.Duration) error {
		return service.Serve(ctx, l, linger)
	})
	c := Config{
		Packaging: update.Packaging{Kind: update.Image, Version: "1.0.0"}, Helper: helper.Client{Path: socket},
		Dir: filepath.Join(dir, "received"), Root: dir, Catalogue: filepath.Join(dir, "drivers.json"),
		Room: func(int64) error { return nil }, Next: func() string { return "" },
		Found: func() []edgewise.DeviceInfo { return nil }, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	b.Drivers = New(c)
	b.Run(t.Context())
	return b
}

func (b *flashed) driver(version string) []byte {
	return fakesystem.Driver(b.sign, version, bytes.Repeat([]byte("x"), 100_000), nil)
}

// mounted has this start have mounted something.
func (b *flashed) mounted(list ...driver.Mounted) {
	b.t.Helper()
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.mounts, "mounted.json"), text, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.Run(b.t.Context())
}

func TestADeviceWithoutADriverIsOfferedOne(t *testing.T) {
	b := newFlashed(t, nil, "1234", "1002", "10de")
	devices := b.List().Devices
	want := []admin.GraphicsDevice{
		{BusID: "0000:00:00.0", Vendor: "1234", Name: "1234 GPU 1234:73df", Text: "models cannot use it"},
		{
			BusID: "0000:01:00.0", Vendor: "AMD", Name: "AMD GPU 1002:73df",
			Text: "install its driver, edgewise-driver-mesa_25.0.7_amd64.driver (71 MB)",
		},
		{BusID: "0000:02:00.0", Vendor: "NVIDIA", Name: "NVIDIA GPU 10de:73df", Text: "no driver extension is installed for it"},
	}
	for i := range devices {
		offered := devices[i].Offer
		if (offered != nil) != (i == 1) {
			t.Errorf("%s is offered %+v", devices[i].Name, offered)
		}
		if devices[i].Offer = nil; devices[i] != want[i] {
			t.Errorf("got %+v: want %+v", devices[i], want[i])
		}
	}
	if missing := b.Missing(); len(missing) != 2 || missing[0].Vendor != "AMD" || missing[1].Vendor != "NVIDIA" {
		t.Errorf("missing are %+v", missing)
	}
}

// TestWhatIsInstalledIsListedOnceItIsUsed installs a driver, restarts, and removes it.
func TestWhatIsInstalledIsListedOnceItIsUsed(t *testing.T) {
	b := newFlashed(t, nil, "1002")
	text := b.driver("25.0.7")
	d, err := b.Receive(t.Context(), int64(len(text)), bytes.NewReader(text))
	if err != nil || !d.Restart || len(d.Installed) != 1 || d.Installed[0].Mounted || d.Installed[0].Size != int64(len(text)) {
		t.Fatalf("installed %+v, %v", d, err)
	}
	if missing := b.Missing(); len(missing) != 0 {
		t.Errorf("what waits for a restart is missing: %+v", missing)
	}
	state, err := (helper.Client{Path: b.config.Helper.Path}).Ask(t.Context(), helper.Request{Do: helper.DoDrivers}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.mounted(driver.Mounted{
		Name: "mesa", Version: "25.0.7", File: state.Drivers.Entries[0].File, Mounted: true, Vendors: []string{"1002"},
	})
	d = b.List()
	if d.Restart || !d.Installed[0].Mounted || !d.Devices[0].Served || d.Devices[0].Text != "driver mesa 25.0.7" {
		t.Errorf("after the start: %+v", d)
	}
	if d, err = b.Remove(t.Context(), "mesa"); err != nil || !d.Restart || len(d.Installed) != 0 {
		t.Errorf("removed: %+v, %v", d, err)
	}
	if _, err := b.Rollback(t.Context(), "mesa"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("rolled back: %v", err)
	}
}

func TestADriverThatIsNotMountedSaysWhy(t *testing.T) {
	b := newFlashed(t, nil)
	text := b.driver("25.0.7")
	if _, err := b.Receive(t.Context(), -1, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	b.mounted(
		driver.Mounted{Name: "mesa", Version: "25.0.7", File: b.known.Entries[0].File, Reason: "it was changed"},
		driver.Mounted{Name: "x.driver", Reason: "it was cut off"})
	d := b.List()
	if d.Restart || len(d.Installed) != 2 || d.Installed[0].Reason != "it was changed" || d.Installed[1].Reason != "it was cut off" {
		t.Errorf("listed %+v", d)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	full := edgewise.Errorf("store.Room", edgewise.Exhausted, "the disk is full")
	broken := errors.New("the client went away")
	b := newFlashed(t, nil)
	good := b.driver("1")
	tests := []struct {
		name string
		room error
		size int64
		body io.Reader
		kind edgewise.Kind
		want string
	}{
		{"announced too large", nil, driver.MaxBytes + 1, bytes.NewReader(good), edgewise.TooLarge, "at most 1073741824"},
		{"on a full disk", full, 1, bytes.NewReader(good), edgewise.Exhausted, "the disk is full"},
		{"none", nil, 4, strings.NewReader("hsqs"), edgewise.Invalid, "is no driver extension"},
		{"broken off", nil, -1, io.MultiReader(bytes.NewReader(good[:1000]), failing{broken}), edgewise.Internal, "went away"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.config.Room = func(int64) error { return tt.room }
			_, err := b.Receive(t.Context(), tt.size, tt.body)
			if err == nil || edgewise.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v: want %v with %q", err, tt.kind, tt.want)
			}
			if _, err := os.Stat(b.path()); !os.IsNotExist(err) {
				t.Errorf("its file is kept: %v", err)
			}
		})
	}
	b.config.Room = func(int64) error { return nil }
	<-b.turn
	if _, err := b.Receive(t.Context(), 1, bytes.NewReader(good)); edgewise.KindOf(err) != edgewise.Busy {
		t.Errorf("beside another: %v", err)
	}
}

// failing is a body that ends early.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestAnotherSystemHasNoExtensions(t *testing.T) {
	b := newFlashed(t, func(c *Config) {
		c.Packaging.Kind = update.Package
		c.Found = func() []edgewise.DeviceInfo {
			return []edgewise.DeviceInfo{{Used: true, BusID: "0000:00:00.0", Description: "AMD Radeon RX 6700 XT"}}
		}
	}, "1002", "8086")
	d := b.List()
	if d.Possible || d.Problem == "" || !d.Devices[0].Served || d.Devices[0].Name != "AMD Radeon RX 6700 XT" || d.Devices[1].Served ||
		len(b.Missing()) != 0 {
		t.Errorf("listed %+v", d)
	}
	if _, err := b.Receive(t.Context(), 1, strings.NewReader("x")); edgewise.KindOf(err) != edgewise.Unsupported {
		t.Errorf("sent: %v", err)
	}
}
