package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
)

// The media types of an artifact; see docs/registries.md.
const (
	artifactType = "application/vnd.edgewise.model.v1"
	configType   = "application/vnd.edgewise.model.config.v1+json"
	fileType     = "application/vnd.edgewise.model.file.v1"
	fleetType    = "application/vnd.edgewise.fleet.v1"
	fleetConfig  = "application/vnd.edgewise.fleet.config.v1+json"
	dockerList   = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig = "application/vnd.docker.container.image.v1+json"
)

// Bounds of what a registry says, which is not believed.
const (
	maxManifest    = 4 << 20  // bytes of a manifest
	maxAnnotations = 64 << 10 // bytes of all annotations together
	maxConfig      = 1 << 20  // bytes of the configuration
	maxFiles       = 10_000   // of an artifact
	maxVersions    = 100      // of a repository
	maxPages       = 10       // of lists
	maxNamed       = 5        // manifests of an index that a failure names
)

// artifact is a manifest whose bytes were verified.
type artifact struct {
	descriptor ocispec.Descriptor
	text       []byte
	manifest   ocispec.Manifest
	form       string
	thing      string // its name, for messages
}

// manifestOf fetches the manifest of an artifact at a tag or a digest. Failures: NotFound, Denied, Unavailable, Corrupt, TooLarge,
// Unsupported.
func manifestOf(ctx context.Context, repo *remote.Repository, at string) (*artifact, error) {
	a, err := textOf(ctx, repo, at)
	if err != nil {
		return nil, err
	}
	return a, a.read()
}

// textOf fetches a manifest and verifies that its bytes have the digest.
func textOf(ctx context.Context, repo *remote.Repository, at string) (*artifact, error) {
	thing := nameOf(repo, at)
	descriptor, body, err := repo.Manifests().FetchReference(ctx, at)
	if err != nil {
		return nil, failed(thing, err)
	}
	defer func() { _ = body.Close() }()
	if descriptor.Size > maxManifest {
		return nil, fetch.Failf(fetch.TooLarge, "%s: its manifest has %d bytes: at most %d are read", thing, descriptor.Size, maxManifest)
	}
	text, err := content.ReadAll(body, descriptor)
	if err != nil {
		return nil, failed(thing+": its manifest", err)
	}
	return &artifact{descriptor: descriptor, text: text, thing: thing}, nil
}

// read decodes a manifest and tells its form.
func (a *artifact) read() error {
	if t := a.descriptor.MediaType; t == ocispec.MediaTypeImageIndex || t == dockerList {
		return a.isIndex()
	}
	if err := json.Unmarshal(a.text, &a.manifest); err != nil {
		return fetch.Failf(fetch.Invalid, "%s: its manifest is not the JSON of a manifest: %v", a.thing, err)
	}
	switch m := &a.manifest; {
	case m.MediaType == ocispec.MediaTypeImageIndex || m.MediaType == dockerList:
		return a.isIndex()
	case m.ArtifactType == artifactType || m.Config.MediaType == configType:
		a.form = fetch.FormModel
	case m.ArtifactType == fleetType || m.Config.MediaType == fleetConfig:
		a.form = fetch.FormFleet
	case m.ArtifactType == "" && (m.Config.MediaType == ocispec.MediaTypeImageConfig || m.Config.MediaType == dockerConfig):
		a.form = fetch.FormModelcar
	default:
		return fetch.Failf(fetch.Unsupported, "%s is of the type %.100q: want %s, or an image with files below /models", a.thing,
			cmp.Or(m.ArtifactType, m.Config.MediaType), artifactType)
	}
	return nil
}

// isIndex is the failure for a list of manifests, which names those that it has.
func (a *artifact) isIndex() error {
	var index ocispec.Index
	_ = json.Unmarshal(a.text, &index) // what cannot be read lists nothing
	var named []string
	for _, m := range index.Manifests[:min(len(index.Manifests), maxNamed)] {
		text := m.Digest.String()
		if m.Platform != nil {
			text += " (" + m.Platform.OS + "/" + m.Platform.Architecture + ")"
		}
		named = append(named, text)
	}
	return fetch.Failf(fetch.Unsupported, "%s is an index, a list of manifests: name one of them by its digest: %.600s", a.thing,
		strings.Join(named, ", "))
}

// entries lists the files of an artifact, or the layers of an image in their order. Failures: Invalid, TooLarge, Unsupported.
func (a *artifact) entries() ([]fetch.Entry, error) {
	layers := a.manifest.Layers
	if len(layers) == 0 || len(layers) > maxFiles {
		return nil, fetch.Failf(fetch.TooLarge, "%s has %d files: want 1 to %d", a.thing, len(layers), maxFiles)
	}
	list := make([]fetch.Entry, len(layers))
	for i, layer := range layers {
		if layer.Digest.Validate() != nil || layer.Digest.Algorithm() != digest.SHA256 || layer.Size < 0 {
			return nil, fetch.Failf(fetch.Unsupported, "%s has a file of %d bytes with the digest %.100q: want sha256:...", a.thing, layer.Size,
				layer.Digest)
		}
		list[i] = fetch.Entry{Name: layer.Annotations[ocispec.AnnotationTitle], Size: layer.Size, SHA256: layer.Digest.Encoded()}
		if a.form == fetch.FormModelcar {
			list[i].Name = layerName(i, layer)
		}
	}
	return list, a.checkPaths(list)
}

// checkPaths refuses files that cannot stand in one folder.
func (a *artifact) checkPaths(list []fetch.Entry) error {
	sizes, files, folders := map[string]int64{}, map[string]bool{}, map[string]bool{}
	for _, e := range list {
		if err := edgewise.CheckPath(e.Name); err != nil {
			return fetch.Failf(fetch.Invalid, "%s: %v", a.thing, err)
		}
		if files[e.Name] {
			return fetch.Failf(fetch.Invalid, "%s has two files %q", a.thing, e.Name)
		}
		if size, ok := sizes[e.SHA256]; ok && size != e.Size {
			return fetch.Failf(fetch.Invalid, "%s has two files with the digest %s and other sizes", a.thing, e.SHA256)
		}
		files[e.Name], sizes[e.SHA256] = true, e.Size
		for i := range e.Name {
			if e.Name[i] == '/' {
				folders[e.Name[:i]] = true
			}
		}
	}
	for folder := range folders {
		if files[folder] {
			return fetch.Failf(fetch.Invalid, "%s has a file %q and files below it", a.thing, folder)
		}
	}
	return nil
}

// layerName is the name of a layer of an image, whose end says how it is packed.
func layerName(i int, layer ocispec.Descriptor) string {
	name := fmt.Sprintf("layer-%05d.tar", i)
	switch {
	case strings.HasSuffix(layer.MediaType, "gzip"):
		name += ".gz"
	case strings.HasSuffix(layer.MediaType, "zstd"):
		name += ".zst"
	}
	return name
}

// blobBytes fetches a small blob. Failures: those of a manifest.
func blobBytes(ctx context.Context, repo *remote.Repository, d ocispec.Descriptor, most int64) ([]byte, error) {
	thing := nameOf(repo, d.Digest.String())
	if d.Size > most || d.Size < 0 {
		return nil, fetch.Failf(fetch.TooLarge, "%s has %d bytes: at most %d are read", thing, d.Size, most)
	}
	body, err := repo.Blobs().Fetch(ctx, d)
	if err != nil {
		return nil, failed(thing, err)
	}
	defer func() { _ = body.Close() }()
	text, err := content.ReadAll(body, d)
	if err != nil {
		return nil, failed(thing, err)
	}
	return text, nil
}

// nameOf names what stands at a tag or a digest of a repository, for messages.
func nameOf(repo *remote.Repository, at string) string {
	separator := ":"
	if strings.Contains(at, ":") {
		separator = "@"
	}
	return repo.Reference.Registry + "/" + repo.Reference.Repository + separator + at
}

// descriptorOf describes bytes.
func descriptorOf(mediaType string, text []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}
}

// reader reads bytes, again where a request is repeated.
func reader(text []byte) io.Reader { return bytes.NewReader(text) }
