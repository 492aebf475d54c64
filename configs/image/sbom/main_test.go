package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const status = `Package: base-files
Status: install ok installed
Architecture: amd64
Version: 13.8
Description: a package
 Package: not one, but a line of the description

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
`

// madeSlot makes a slot with one package, this test as the program, and more files.
func madeSlot(t *testing.T, more ...string) slot {
	t.Helper()
	root, overlay := t.TempDir(), t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{
		"var/lib/dpkg/status":                         status,
		"var/lib/dpkg/info/base-files.list":           "/.\n/usr\n/usr/bin/tool\n/lib/library.so\n",
		"var/lib/dpkg/info/base-files.conffiles":      "/etc/tool.conf\n",
		"usr/bin/tool":                                "x",
		"usr/lib/library.so":                          "x",
		"etc/tool.conf":                               "x",
		"usr/lib/edgewise/edgewise":                   string(text),
		"usr/lib/edgewise/lib/libonnxruntime.so.1":    "a library",
		"usr/share/edgewise/demo/models/vad/1/m.onnx": "a model",
		"etc/machine-id":                              "",
		"var/lib/dpkg/info/edgewise.list":             "/usr/lib/edgewise/edgewise\n/usr/lib/edgewise/lib/libonnxruntime.so.1\n",
	}
	for _, name := range more {
		contents[name] = "more"
	}
	for name, content := range contents {
		write(t, filepath.Join(root, name), content)
	}
	write(t, filepath.Join(overlay, "etc/own.conf"), "ours")
	return slot{root, "1.2.3", overlay, "1.29.0"}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestEverythingInASlotIsListed(t *testing.T) {
	var out bytes.Buffer
	if err := run(madeSlot(t, "etc/own.conf"), &out); err != nil {
		t.Fatal(err)
	}
	var got document
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.Metadata.Component.Version != "1.2.3" {
		t.Errorf("the document is %s of %+v", got.Format, got.Metadata)
	}
	found := map[string]component{}
	for _, c := range got.Components {
		found[c.Name] = c
	}
	if c := found["base-files"]; c.Version != "13.8" || c.PURL != "pkg:deb/debian/base-files@13.8?arch=amd64" {
		t.Errorf("the package is %+v", c)
	}
	if _, ok := found["gone"]; ok {
		t.Error("a package that is not installed is listed")
	}
	want := sha256.Sum256([]byte("a library"))
	if c := found["onnxruntime"]; c.Version != "1.29.0" || len(c.Hashes) != 1 || c.Hashes[0].Content != hex.EncodeToString(want[:]) {
		t.Errorf("the runtime is %+v", c)
	}
	if c := found["usr/share/edgewise/demo/models/vad/1/m.onnx"]; c.Type != "machine-learning-model" || len(c.Hashes) != 1 {
		t.Errorf("the model is %+v", c)
	}
	if c := found["edgewise"]; c.Type != "application" || len(c.Hashes) != 1 {
		t.Errorf("the program is %+v", c)
	}
	if c := found["std"]; !strings.HasPrefix(c.Version, "go1.") {
		t.Errorf("Go's library is %+v", c)
	}
}

func TestAFileOfNobodyIsAnError(t *testing.T) {
	for _, name := range []string{"usr/bin/stray", "opt/stray", "etc/stray.conf", "usr/lib/stray.so", "home/somebody/stray"} {
		err := run(madeSlot(t, name), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a slot with %s: %v: want an error that names it", name, err)
		}
	}
}

func TestWhatIsMissingIsAnError(t *testing.T) {
	for name, spoil := range map[string]func(*slot){
		"no packages":   func(s *slot) { write(t, filepath.Join(s.root, "var/lib/dpkg/status"), "") },
		"no program":    func(s *slot) { _ = os.Remove(filepath.Join(s.root, program)) },
		"not a program": func(s *slot) { write(t, filepath.Join(s.root, program), "#!/bin/sh\n") },
		"no version":    func(s *slot) { s.runtime = "" },
		"no folder":     func(s *slot) { s.root = filepath.Join(s.root, "nowhere") },
	} {
		s := madeSlot(t)
		spoil(&s)
		if err := run(s, &bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
