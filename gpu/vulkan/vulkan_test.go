package vulkan_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/vulkan"
	"github.com/edgewise-ai/edgewise/test/fakevulkan"
)

func TestDevicesSayWhatTheyAreAndWhatTheyLack(t *testing.T) {
	path := fakevulkan.Loader(
		t, 0,
		fakevulkan.Device{Name: "Intel(R) UHD Graphics (ADL-N)", Vendor: 0x8086, Type: 1, API: 3, Missing: -1, Memory: 15 << 10},
		fakevulkan.Device{Name: "Old", Vendor: 0x1002, Type: 2, API: 3, Missing: 34, Memory: 4 << 10},
		fakevulkan.Device{Name: "V3D", Vendor: 0x14e4, Type: 1, API: 0, Missing: -1, Memory: 1 << 10},
		fakevulkan.Device{Name: "Other", Vendor: 0xabcd, Type: 9, API: 3, Missing: 22},
	)
	l, err := vulkan.Open(vulkan.Candidates(path))
	if err != nil || l.Path() != path {
		t.Fatal(err)
	}
	list, err := l.Devices()
	if err != nil || len(list) != 4 {
		t.Fatalf("%d devices: %v", len(list), err)
	}
	want := vulkan.Device{
		Name: "Intel(R) UHD Graphics (ADL-N)", Vendor: "Intel", Type: vulkan.Integrated, Driver: "fakev 25.0.7", API: "1.3",
		UUID: strings.Repeat("a0", 16), BusID: "0000:03:00.0", Memory: 15 << 30, Major: 226, Minor: 128,
	}
	if got := list[0]; got.Lacks() != "" || !equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := list[1]; got.Vendor != "AMD" || got.Type != vulkan.Discrete ||
		got.Lacks() != "shaderSampledImageArrayDynamicIndexing" {
		t.Errorf("%+v", got)
	}
	if got := list[2]; got.Lacks() != "Vulkan 1.1 (it has 1.0)" || got.Driver != "25.0" || got.UUID != "" || got.Major != 0 {
		t.Errorf("a device of Vulkan 1.0: %+v", got)
	}
	if got := list[3]; got.Vendor != "vendor 0xabcd" || got.Type != vulkan.Other || got.Lacks() != "" {
		t.Errorf("a device without BC textures and with the others: %+v", got)
	}
}

func equal(a, b vulkan.Device) bool {
	missing := slices.Equal(a.Missing, b.Missing)
	a.Missing, b.Missing = nil, nil
	type comparable struct {
		name, vendor, driver, api, uuid, bus string
		kind                                 vulkan.Type
		memory, major, minor                 int64
	}
	of := func(d vulkan.Device) comparable {
		return comparable{d.Name, d.Vendor, d.Driver, d.API, d.UUID, d.BusID, d.Type, d.Memory, d.Major, d.Minor}
	}
	return missing && of(a) == of(b)
}

func TestADriverThatDoesNotStartSaysWhy(t *testing.T) {
	l, err := vulkan.Open(vulkan.Candidates(fakevulkan.Loader(t, -9)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Devices()
	if edgewise.KindOf(err) != edgewise.Unavailable ||
		!strings.Contains(err.Error(), "the Vulkan driver does not start: no driver was found that fits (VkResult -9)") {
		t.Error(err)
	}
	none := filepath.Join(t.TempDir(), "libvulkan.so.1")
	if _, err := vulkan.Open([]string{none}); !strings.Contains(err.Error(), "no Vulkan loader was found ("+none+")") {
		t.Error(err)
	}
	if err := os.WriteFile(none, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := vulkan.Open([]string{none}); !strings.Contains(err.Error(), none+" cannot be loaded as the Vulkan loader: ") {
		t.Error(err)
	}
}

func TestManifestsNameTheirLibraries(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "usr/share/vulkan/icd.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ content, library string }{
		"a.json": {`{"ICD": {"library_path": "libvulkan_radeon.so"}}`, "libvulkan_radeon.so"},
		"b.json": {`{"ICD": {"library_path": "./x/lib.so"}}`, filepath.Join(dir, "x/lib.so")},
		"c.json": {`{"ICD": {"library_path": "/opt/lib.so"}}`, "/opt/lib.so"},
		"d.json": {`{"ICD": {}}`, ""},
		"e.json": {`{"ICD": ` + strings.Repeat(" ", 64<<10) + `{"library_path": "x"}}`, ""},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := vulkan.Library(path); got != test.library || (err == nil) != (test.library != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if list := vulkan.Manifests(nil, root); len(list) != 5 || filepath.Base(list[0]) != "a.json" {
		t.Errorf("found %v", list)
	}
	if list := vulkan.Manifests([]string{"/x.json"}, root); len(list) != 1 || list[0] != "/x.json" {
		t.Errorf("the configuration goes first: %v", list)
	}
	if _, err := vulkan.Library(filepath.Join(dir, "none")); edgewise.KindOf(err) != edgewise.NotFound {
		t.Error(err)
	}
}
