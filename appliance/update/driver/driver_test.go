package driver_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

var (
	running = driver.System{Architecture: "amd64", Level: fakesystem.Level, Version: "1.0.0", Kernel: "6.12.1", Slot: "A"}
	content = bytes.Repeat([]byte("a file system "), 10_000)
)

// box is a folder of drivers with the key that its extensions are signed with.
type box struct {
	t      *testing.T
	folder *driver.Folder
	sign   func([]byte) string
}

func newBox(t *testing.T) *box {
	t.Helper()
	b := &box{t: t, folder: &driver.Folder{Path: filepath.Join(t.TempDir(), "drivers"), Keys: t.TempDir()}}
	b.sign = fakesystem.Key(t, b.folder.Keys)
	return b
}

func (b *box) file(text []byte) *os.File {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "sent.driver")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = f.Close() })
	return f
}

func (b *box) driver(version string, change func(*driver.Manifest)) []byte {
	return fakesystem.Driver(b.sign, version, content, change)
}

func (b *box) install(text []byte, sys driver.System, next string) error {
	b.t.Helper()
	_, err := b.folder.Install(driver.Offer{File: b.file(text), System: sys, Next: next})
	return err
}

func (b *box) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// versions are those that are installed, the preferred one first.
func (b *box) versions() (list []string) {
	b.t.Helper()
	s, err := b.folder.State()
	b.must(err)
	for _, e := range s.Entries {
		list = append(list, e.Manifest.Version)
		if _, err := os.Stat(filepath.Join(b.folder.Path, e.File)); err != nil {
			b.t.Errorf("version %s has no file: %v", e.Manifest.Version, err)
		}
	}
	return list
}

func (b *box) want(versions ...string) {
	b.t.Helper()
	if got := b.versions(); !slices.Equal(got, versions) {
		b.t.Errorf("installed are %q: want %q", got, versions)
	}
	files, err := os.ReadDir(b.folder.Path)
	if err == nil && len(files) > len(versions)+1 {
		b.t.Errorf("%d files for %d versions", len(files), len(versions))
	}
}

func TestExtensionsThatAreRefused(t *testing.T) {
	b := newBox(t)
	good := b.driver("25.0.7", nil)
	stranger := fakesystem.Key(t, "")
	flipped := func(at int) []byte {
		text := bytes.Clone(good)
		text[at] ^= 1
		return text
	}
	changed := func(change func(*driver.Manifest)) []byte { return b.driver("25.0.7", change) }
	tests := []struct {
		name string
		text []byte
		kind edgewise.Kind
		want string
	}{
		{"no extension", []byte("hsqs"), edgewise.Invalid, "is no driver extension"},
		{"empty", nil, edgewise.Invalid, "is no driver extension"},
		{"a header alone", good[:driver.HeaderBytes-1], edgewise.Invalid, "it was cut off"},
		{"cut off", good[:len(good)-1], edgewise.Invalid, "it was cut off or added to"},
		{"longer than it says", append(bytes.Clone(good), 0), edgewise.Invalid, "it was cut off or added to"},
		{"a flipped bit of the content", flipped(len(good) - 5), edgewise.Corrupt, "was changed"},
		{"a flipped bit of the manifest", flipped(bytes.Index(good, []byte("25.0.7"))), edgewise.Denied, "changed or cut off"},
		{"signed by a stranger", fakesystem.Driver(stranger, "25.0.7", content, nil), edgewise.Denied, "does not know"},
		{
			"not signed", fakesystem.Driver(func([]byte) string { return "" }, "25.0.7", content, nil), edgewise.Denied,
			"none that minisign makes",
		},
		{
			"with the signature of another one",
			fakesystem.Driver(func([]byte) string { return b.sign([]byte("SHA256SUMS")) }, "25.0.7", content, nil), edgewise.Denied,
			"changed or cut off",
		},
		{
			"for another architecture", changed(func(m *driver.Manifest) { m.Architecture = "arm64" }), edgewise.Conflict,
			"is for arm64: this machine is amd64",
		},
		{
			"for another system", changed(func(m *driver.Manifest) { m.Fits.Level = "debian-12" }), edgewise.Conflict,
			`for slots of level "debian-12"`,
		},
		{
			"for a later slot", changed(func(m *driver.Manifest) { m.Fits.From = "1.1.0" }), edgewise.Conflict,
			"for version 1.1.0 and later: this slot is 1.0.0",
		},
		{
			"for an earlier slot", changed(func(m *driver.Manifest) { m.Fits.Before = "1.0.0" }), edgewise.Conflict,
			"for versions before 1.0.0",
		},
		{
			"for another kernel", changed(func(m *driver.Manifest) { m.Fits.Kernel = "6.1.0" }), edgewise.Conflict,
			"for the kernel 6.1.0: this slot has 6.12.1",
		},
		{
			"too large", changed(func(m *driver.Manifest) { m.Size = driver.MaxBytes }), edgewise.TooLarge,
			"has 1073741824 bytes",
		},
		{"a path that leads outside", changed(func(m *driver.Manifest) { m.Loader = "../lib" }), edgewise.Invalid, `"../lib"`},
		{"an absolute path", changed(func(m *driver.Manifest) { m.Firmware = "/lib" }), edgewise.Invalid, `"/lib"`},
		{"a path with a comma", changed(func(m *driver.Manifest) { m.Libraries = []string{"a,b"} }), edgewise.Invalid, `"a,b"`},
		{"a name of more", changed(func(m *driver.Manifest) { m.Name = "a/b" }), edgewise.Invalid, "name"},
		{"another kind", changed(func(m *driver.Manifest) { m.Kind = "sound" }), edgewise.Invalid, "want vulkan or cuda"},
		{"no device", changed(func(m *driver.Manifest) { m.Devices = nil }), edgewise.Invalid, "has 0 devices"},
		{
			"a module with options", changed(func(m *driver.Manifest) { m.Devices[0].Modules = []string{"a b"} }), edgewise.Invalid,
			"the name of a module",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := b.install(tt.text, running, "")
			if edgewise.KindOf(err) != tt.kind || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v: want %v with %q", err, tt.kind, tt.want)
			}
			b.want()
		})
	}
	b.must(b.install(good, running, ""))
	if err := b.install(good, running, ""); edgewise.KindOf(err) != edgewise.Exists {
		t.Errorf("the same once more: %v", err)
	}
	b.want("25.0.7")
}

func TestAFullDiskRefuses(t *testing.T) {
	b := newBox(t)
	text := b.driver("25.0.7", nil)
	left := int64(len(text)) + 64<<20 - 1
	b.folder.Free = func() (int64, error) { return left, nil }
	err := b.install(text, running, "")
	if edgewise.KindOf(err) != edgewise.Exhausted || !strings.Contains(err.Error(), "the disk has") {
		t.Errorf("got %v", err)
	}
	b.want()
	left++
	b.must(b.install(text, running, ""))
}

func TestAtMostTwoVersionsOfADriverAreKept(t *testing.T) {
	b := newBox(t)
	for _, version := range []string{"1", "2", "3"} {
		b.must(b.install(b.driver(version, nil), running, ""))
	}
	b.want("3", "2")
	_, err := b.folder.Rollback("mesa", running)
	b.must(err)
	b.want("2", "3")
	b.must(b.folder.Remove("mesa"))
	b.want()
	if err := b.folder.Remove("mesa"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func TestAtMostFourDriversAreInstalled(t *testing.T) {
	b := newBox(t)
	named := func(name string) error {
		return b.install(b.driver("1", func(m *driver.Manifest) { m.Name = name }), running, "")
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		b.must(named(name))
	}
	if err := named("e"); edgewise.KindOf(err) != edgewise.Conflict || !strings.Contains(err.Error(), "4 drivers are installed") {
		t.Errorf("a fifth: %v", err)
	}
}

func TestARollbackNeedsAVersionThatFits(t *testing.T) {
	b := newBox(t)
	if _, err := b.folder.Rollback("mesa", running); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("without a driver: %v", err)
	}
	b.must(b.install(b.driver("1", func(m *driver.Manifest) { m.Fits.Before = "2.0.0" }), running, ""))
	if _, err := b.folder.Rollback("mesa", running); edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("without another version: %v", err)
	}
	later := running
	later.Version = "2.0.0"
	b.must(b.install(b.driver("2", nil), later, ""))
	_, err := b.folder.Rollback("mesa", later)
	if edgewise.KindOf(err) != edgewise.Conflict || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("to one that does not fit: %v", err)
	}
	b.want("2", "1")
}

// TestTheSlotOfAnUpdateMayBeAheadOfItsDriver installs an extension for the version that the next start brings.
func TestTheSlotOfAnUpdateMayBeAheadOfItsDriver(t *testing.T) {
	b := newBox(t)
	next := b.driver("2", func(m *driver.Manifest) { m.Fits.From = "1.1.0" })
	if err := b.install(next, running, "1.0.5"); edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("for neither of them: %v", err)
	}
	b.must(b.install(next, running, "1.1.0"))
	b.want("2")
}

// TestEachCutLeavesAFolderThatWorks ends an installation in front of each of its steps, as a cut of the power does, and
// installs again afterwards.
func TestEachCutLeavesAFolderThatWorks(t *testing.T) {
	killed := errors.New("killed")
	for _, at := range []string{"copy", "sync", "check", "rename", "record", "sweep"} {
		t.Run(at, func(t *testing.T) {
			b := newBox(t)
			for _, version := range []string{"1", "2"} {
				b.must(b.install(b.driver(version, nil), running, ""))
			}
			reached := false
			b.folder.Step = func(name string) {
				if name == at {
					reached = true
					panic(killed)
				}
			}
			func() {
				defer func() {
					if r := recover(); r != nil && r != killed {
						panic(r)
					}
				}()
				_ = b.install(b.driver("3", nil), running, "")
			}()
			b.folder.Step = nil
			if !reached {
				t.Fatal("there is no such step")
			}
			want := []string{"2", "1"}
			if at == "sweep" {
				want = []string{"3", "2"}
			}
			if got := b.versions(); !slices.Equal(got, want) {
				t.Errorf("after the cut %q are installed: want %q", got, want)
			}
			b.must(b.install(b.driver("4", nil), running, ""))
			b.want("4", want[0])
		})
	}
}

func TestAStateThatCannotBeReadIsEmpty(t *testing.T) {
	b := newBox(t)
	b.must(b.install(b.driver("1", nil), running, ""))
	b.must(os.WriteFile(filepath.Join(b.folder.Path, "drivers.json"), []byte("{"), 0o600))
	if got := b.versions(); len(got) != 0 {
		t.Errorf("installed are %q", got)
	}
	b.must(b.install(b.driver("1", nil), running, ""))
	b.want("1")
}

func TestAFolderWithoutKeysTakesNothing(t *testing.T) {
	b := newBox(t)
	text := b.driver("1", nil)
	b.folder.Keys = t.TempDir()
	if err := b.install(text, running, ""); edgewise.KindOf(err) != edgewise.Unsupported {
		t.Errorf("got %v", err)
	}
}
