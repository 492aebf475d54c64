package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tree makes a root file system; when says when its files were made.
func tree(t *testing.T, when time.Time) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"usr/lib/edgewise/edgewise": "program", "etc/passwd": "root", "var/lib/edgewise/.keep": ""} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("usr/lib", filepath.Join(root, "lib")); err != nil {
		t.Fatal(err)
	}
	return root
}

func made(t *testing.T, when time.Time) (layout string) {
	t.Helper()
	layout = filepath.Join(t.TempDir(), "oci")
	for _, arch := range []string{"amd64", "arm64"} {
		if _, err := write(options{tree(t, when), arch, "1.0.0", layout, time.Unix(1_700_000_000, 0).UTC()}); err != nil {
			t.Fatal(err)
		}
	}
	return layout
}

func TestALayoutIsWhatWasWritten(t *testing.T) {
	layout := made(t, time.Now())
	for _, arch := range []string{"amd64", "arm64"} {
		c, err := checkLayout(layout, arch)
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		if err := c.unpack(root); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(root, "lib/edgewise/edgewise")); err != nil || string(text) != "program" {
			t.Errorf("unpacked %q, %v", text, err)
		}
	}
	if _, err := checkLayout(layout, "riscv64"); err == nil {
		t.Error("an image that is not there is found")
	}
}

func TestTheSameInputsMakeTheSameBytes(t *testing.T) {
	a, b := made(t, time.Now()), made(t, time.Now().Add(-time.Hour))
	for _, name := range []string{"index.json", "oci-layout"} {
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("%s: %s and %s", name, x, y)
		}
	}
}

func TestWritingAgainReplacesTheImage(t *testing.T) {
	layout := made(t, time.Now())
	root := tree(t, time.Now())
	if err := os.WriteFile(filepath.Join(root, "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := write(options{root, "amd64", "1.0.1", layout, time.Unix(1_700_000_000, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	blobs, err := os.ReadDir(filepath.Join(layout, "blobs", "sha256"))
	if err != nil || len(blobs) != 6 {
		t.Errorf("%d blobs, %v: want a manifest, a configuration and a layer for each of two", len(blobs), err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if _, err := checkLayout(layout, arch); err != nil {
			t.Error(err)
		}
	}
}

func TestADamagedLayoutIsFound(t *testing.T) {
	layout := made(t, time.Now())
	blobs, err := filepath.Glob(filepath.Join(layout, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blobs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := bytes.Clone(text)
		damaged[len(damaged)/2] ^= 1
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		_, a := checkLayout(layout, "amd64")
		_, b := checkLayout(layout, "arm64")
		if a == nil && b == nil {
			t.Errorf("%s is damaged and nobody sees it", filepath.Base(path))
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsPromisedOfAnImage(t *testing.T) {
	c := checked{config: image{Config: settings{User: "0:0", Ports: map[string]struct{}{"8000/tcp": {}}}}}
	err := c.checkSettings()
	for _, text := range []string{`user "0:0"`, "8001/tcp", "8002/tcp", "starts nothing"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: want %q", err, text)
		}
	}
}
