package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"

	// user is the ID of the image's user: not root, and of no user of a usual machine.
	user = 65532
)

type options struct {
	root, arch, version, out string
	time                     time.Time
}

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	Version   int          `json:"schemaVersion"`
	MediaType string       `json:"mediaType"`
	Manifests []descriptor `json:"manifests"`
}

type manifest struct {
	Version   int          `json:"schemaVersion"`
	MediaType string       `json:"mediaType"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// image is the configuration of an image.
type image struct {
	Created string `json:"created"`
	platform
	Config settings `json:"config"`
	RootFS rootFS   `json:"rootfs"`
}

type settings struct {
	User       string              `json:"User"`
	Ports      map[string]struct{} `json:"ExposedPorts"`
	Env        []string            `json:"Env"`
	Entrypoint []string            `json:"Entrypoint"`
	Cmd        []string            `json:"Cmd"`
	Volumes    map[string]struct{} `json:"Volumes"`
	WorkingDir string              `json:"WorkingDir"`
	Labels     map[string]string   `json:"Labels"`
	StopSignal string              `json:"StopSignal"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// write writes a folder as an image of a layout.
func write(o options) (descriptor, error) {
	if err := os.MkdirAll(filepath.Join(o.out, "blobs", "sha256"), 0o755); err != nil {
		return descriptor{}, err
	}
	layer, diffID, err := writeLayer(o)
	if err != nil {
		return descriptor{}, err
	}
	config, err := o.blob(typeConfig, image{
		Created: o.time.Format(time.RFC3339), platform: platform{o.arch, "linux"}, Config: o.settings(),
		RootFS: rootFS{"layers", []string{diffID}},
	})
	if err != nil {
		return descriptor{}, err
	}
	m, err := o.blob(typeManifest, manifest{2, typeManifest, config, []descriptor{layer}})
	if err != nil {
		return descriptor{}, err
	}
	m.Platform = &platform{o.arch, "linux"}
	m.Annotations = map[string]string{"org.opencontainers.image.ref.name": o.version}
	return m, o.list(m)
}

// settings are how the image is run.
func (o options) settings() settings {
	return settings{
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/var/lib/edgewise", StopSignal: "SIGTERM",
		Ports:      map[string]struct{}{"8000/tcp": {}, "8001/tcp": {}, "8002/tcp": {}},
		Env:        []string{"PATH=/usr/bin", "HOME=/var/lib/edgewise"},
		Entrypoint: []string{"/usr/lib/edgewise/edgewise"}, Cmd: []string{"serve", "--config", "/etc/edgewise/appliance.yaml"},
		Volumes: map[string]struct{}{"/var/lib/edgewise": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "Edgewise", "org.opencontainers.image.version": o.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/edgewise-ai/edgewise",
		},
	}
}

// blob writes a document as a blob.
func (o options) blob(kind string, document any) (descriptor, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(text)
	d := descriptor{MediaType: kind, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(text))}
	return d, os.WriteFile(blobPath(o.out, d.Digest), text, 0o644)
}

// maxDocument bounds the documents of a layout.
const maxDocument = 4 << 20

// readBlob reads a document whose digest and size are as said.
func readBlob(layout string, d descriptor, into any) error {
	if d.Size < 0 || d.Size > maxDocument || !strings.HasPrefix(d.Digest, "sha256:") || len(d.Digest) != 71 {
		return fmt.Errorf("descriptor %q of %d bytes: want a SHA-256 and at most %d bytes", d.Digest, d.Size, maxDocument)
	}
	text, err := os.ReadFile(blobPath(layout, d.Digest))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if int64(len(text)) != d.Size || "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
		return fmt.Errorf("blob %s is damaged", d.Digest)
	}
	return json.Unmarshal(text, into)
}

func blobPath(layout, digest string) string {
	return filepath.Join(layout, "blobs", "sha256", digest[len("sha256:"):])
}

// writeLayer writes the root file system as a layer; diffID is the digest of what is in it, unpacked.
func writeLayer(o options) (d descriptor, diffID string, err error) {
	f, err := os.CreateTemp(filepath.Join(o.out, "blobs", "sha256"), ".layer-")
	if err != nil {
		return d, "", err
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	packed, bare := sha256.New(), sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, packed), 6)
	if err != nil {
		return d, "", err
	}
	if err := pack(io.MultiWriter(z, bare), o); err != nil {
		return d, "", err
	}
	if err := z.Close(); err != nil {
		return d, "", err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return d, "", err
	}
	d = descriptor{MediaType: typeLayer, Digest: "sha256:" + hex.EncodeToString(packed.Sum(nil)), Size: size}
	if err := f.Chmod(0o644); err != nil {
		return d, "", err
	}
	return d, "sha256:" + hex.EncodeToString(bare.Sum(nil)), os.Rename(f.Name(), blobPath(o.out, d.Digest))
}

// pack writes a folder as an archive in which nothing depends on who made it where and when.
func pack(w io.Writer, o options) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(o.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(o.root, path)
		if err != nil || name == "." {
			return err
		}
		return add(t, path, name, o.time)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func add(t *tar.Writer, path, name string, at time.Time) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name = filepath.ToSlash(name)
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime, h.AccessTime, h.ChangeTime, h.Format = 0, 0, "", "", at, time.Time{}, time.Time{}, tar.FormatPAX
	if name == filepath.Join("var", "lib", "edgewise") {
		h.Uid, h.Gid = user, user
	}
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(t, f)
	return err
}

// list puts an image into the layout's index, in place of one of the same platform, and removes blobs that nothing
// names.
func (o options) list(m descriptor) error {
	all := index{Version: 2, MediaType: typeIndex}
	if text, err := os.ReadFile(filepath.Join(o.out, "index.json")); err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
	}
	all.Manifests = slices.DeleteFunc(all.Manifests, func(d descriptor) bool { return d.Platform == nil || *d.Platform == *m.Platform })
	all.Manifests = append(all.Manifests, m)
	slices.SortFunc(all.Manifests, func(a, b descriptor) int {
		return slices.Compare([]byte(a.Platform.Architecture), []byte(b.Platform.Architecture))
	})
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "index.json"), text, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return sweep(o.out, all)
}

// sweep removes the blobs of earlier images.
func sweep(layout string, all index) error {
	named := map[string]bool{}
	for _, d := range all.Manifests {
		var m manifest
		if err := readBlob(layout, d, &m); err != nil {
			return err
		}
		for _, d := range append(m.Layers, d, m.Config) {
			named[filepath.Base(blobPath(layout, d.Digest))] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(layout, "blobs", "sha256"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !named[e.Name()] {
			if err := os.Remove(filepath.Join(layout, "blobs", "sha256", e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
