package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	givenLayout = flag.String("layout", "", "the layout that is checked")
	givenArch   = flag.String("layout-arch", "amd64", "the architecture of its image that is checked")
	givenRoot   = flag.String("layout-root", "", "an empty folder that the image is unpacked into")
)

// TestTheLayoutIsAsPromised checks a layout that oci.sh has made, for test/packages/oci.sh.
func TestTheLayoutIsAsPromised(t *testing.T) {
	if *givenLayout == "" {
		t.Skip("no -layout is given: make oci-test makes an image and checks it")
	}
	c, err := checkLayout(*givenLayout, *givenArch)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s, user %s, %d MB", *givenLayout, c.manifest, c.config.Config.User, c.size/1e6)
	if err := c.unpack(*givenRoot); err != nil {
		t.Fatal(err)
	}
}

// checked is an image of which every blob has the digest and the size that are said of it.
type checked struct {
	layout   string
	manifest string
	config   image
	layers   []descriptor
	size     int64
}

// checkLayout checks the image of an architecture.
func checkLayout(layout, arch string) (*checked, error) {
	var version struct {
		Version string `json:"imageLayoutVersion"`
	}
	var all index
	for name, into := range map[string]any{"oci-layout": &version, "index.json": &all} {
		text, err := os.ReadFile(filepath.Join(layout, name))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if version.Version != "1.0.0" || all.Version != 2 {
		return nil, fmt.Errorf("layout version %q, index version %d: want 1.0.0 and 2", version.Version, all.Version)
	}
	i := slices.IndexFunc(all.Manifests, func(d descriptor) bool { return d.Platform != nil && *d.Platform == platform{arch, "linux"} })
	if i < 0 {
		return nil, fmt.Errorf("there is no image for linux/%s", arch)
	}
	c := &checked{layout: layout, manifest: all.Manifests[i].Digest}
	var m manifest
	if err := readBlob(layout, all.Manifests[i], &m); err != nil {
		return nil, err
	}
	if err := readBlob(layout, m.Config, &c.config); err != nil {
		return nil, err
	}
	if c.config.platform != (platform{arch, "linux"}) || len(m.Layers) == 0 || len(m.Layers) != len(c.config.RootFS.DiffIDs) {
		return nil, fmt.Errorf("the configuration is for %v with %d layers: want linux/%s with %d", c.config.platform,
			len(c.config.RootFS.DiffIDs), arch, len(m.Layers))
	}
	c.layers = m.Layers
	for i, d := range m.Layers {
		if err := c.checkLayer(d, c.config.RootFS.DiffIDs[i]); err != nil {
			return nil, err
		}
		c.size += d.Size
	}
	return c, c.checkSettings()
}

// checkLayer compares a layer, packed and unpacked, with what is said of it.
func (c *checked) checkLayer(d descriptor, diffID string) error {
	f, err := os.Open(blobPath(c.layout, d.Digest))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	packed, bare := sha256.New(), sha256.New()
	counted := io.TeeReader(f, packed)
	z, err := gzip.NewReader(counted)
	if err != nil {
		return err
	}
	if _, err := io.Copy(bare, z); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(packed.Sum(nil)); got != d.Digest || info.Size() != d.Size {
		return fmt.Errorf("layer %s is damaged", d.Digest)
	}
	if got := "sha256:" + hex.EncodeToString(bare.Sum(nil)); got != diffID {
		return fmt.Errorf("layer %s holds %s: the configuration says %s", d.Digest, got, diffID)
	}
	return nil
}

// checkSettings holds an image against what is promised of it.
func (c *checked) checkSettings() error {
	s := c.config.Config
	var problems []error
	if uid, _, _ := strings.Cut(s.User, ":"); uid == "" || uid == "0" || uid == "root" {
		problems = append(problems, fmt.Errorf("the image runs as user %q", s.User))
	}
	for _, port := range []string{"8000/tcp", "8001/tcp", "8002/tcp"} {
		if _, ok := s.Ports[port]; !ok {
			problems = append(problems, fmt.Errorf("port %s is not exposed", port))
		}
	}
	if len(s.Entrypoint) == 0 {
		problems = append(problems, errors.New("the image starts nothing"))
	}
	return errors.Join(problems...)
}

// unpack writes the layers into a folder, which is to be empty. Owners are not set.
func (c *checked) unpack(root string) error {
	for _, d := range c.layers {
		f, err := os.Open(blobPath(c.layout, d.Digest))
		if err != nil {
			return err
		}
		z, err := gzip.NewReader(f)
		if err == nil {
			err = unpackLayer(z, root)
		}
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func unpackLayer(from io.Reader, root string) error {
	inside, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }()
	for t := tar.NewReader(from); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackOne(inside, h, t); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func unpackOne(inside *os.Root, h *tar.Header, body io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch h.Typeflag {
	case tar.TypeDir:
		if err := inside.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return inside.Chmod(name, h.FileInfo().Mode())
	case tar.TypeSymlink:
		return inside.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := inside.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, body)
		return errors.Join(err, f.Close())
	}
	return fmt.Errorf("entries of type %q are not used here", h.Typeflag)
}
