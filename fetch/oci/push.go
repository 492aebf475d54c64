package oci

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// Put publishes a version: the files of a request, with their digests, its configuration and annotations. It returns the digest of
// the manifest. What the registry has is not sent again. The tag moves last, so that nobody sees a part of a version. Failures:
// Invalid, Denied, NotFound (the repository), Unavailable, Corrupt (a file is not what its digest says), TooLarge.
func (p *Place) Put(ctx context.Context, r *fetch.Request, fetched func(fetch.Fetched) error) (string, error) {
	if p.at == "" || strings.Contains(p.at, ":") {
		return "", fetch.Failf(fetch.Invalid, "%.300q names no tag: want registry/name:tag", r.URL)
	}
	thing := nameOf(p.repo, p.at)
	m, err := describe(thing, r)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(m)
	if err != nil || len(text) > maxManifest {
		return "", fetch.Failf(fetch.TooLarge, "%s: its manifest has %d bytes: at most %d are possible", thing, len(text), maxManifest)
	}
	if err := p.putFiles(ctx, r, fetched); err != nil {
		return "", err
	}
	if err := pushBytes(ctx, p.repo, m.Config, r.Config); err != nil {
		return "", failed(thing+": its configuration", err)
	}
	d := descriptorOf(m.MediaType, text)
	if err := p.repo.Manifests().PushReference(ctx, d, reader(text), p.at); err != nil {
		return "", failed(thing+": its manifest", err)
	}
	return d.Digest.String(), nil
}

// describe makes the manifest of a version. The same version gives the same bytes.
func describe(thing string, r *fetch.Request) (*ocispec.Manifest, error) {
	if !json.Valid(r.Config) || len(r.Config) > maxConfig {
		return nil, fetch.Failf(fetch.Invalid, "%s: the configuration is not JSON of at most %d bytes", thing, maxConfig)
	}
	types := map[string][2]string{
		"": {artifactType, configType}, fetch.FormModel: {artifactType, configType}, fetch.FormFleet: {fleetType, fleetConfig},
	}
	is, known := types[r.Form]
	if !known {
		return nil, fetch.Failf(fetch.Unsupported, "%s: nothing of the form %.20q can be published", thing, r.Form)
	}
	m := &ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: is[0],
		Config: descriptorOf(is[1], r.Config), Annotations: r.Annotations,
	}
	for _, f := range r.Files {
		m.Layers = append(m.Layers, ocispec.Descriptor{
			MediaType: fileType, Digest: digest.NewDigestFromEncoded(digest.SHA256, f.SHA256), Size: f.Size,
			Annotations: map[string]string{ocispec.AnnotationTitle: f.Name},
		})
	}
	a := artifact{manifest: *m, thing: thing}
	_, err := a.entries()
	return m, err
}

// transfers is how many files are sent at the same time where the request does not say it.
const transfers = 4

// putFiles sends the files that the registry lacks.
func (p *Place) putFiles(ctx context.Context, r *fetch.Request, fetched func(fetch.Fetched) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(transfers)
	told := map[string]bool{}
	for _, e := range r.Files {
		if told[e.SHA256] {
			continue // another file has the same bytes
		}
		told[e.SHA256] = true
		group.Go(func() error {
			sent, err := p.putFile(ctx, filepath.Join(r.Folder, filepath.FromSlash(e.Name)), e)
			if err != nil {
				return err
			}
			return fetched(fetch.Fetched{Name: e.Name, Key: e.Key(), SHA256: e.SHA256, Size: e.Size, Received: sent})
		})
	}
	return group.Wait()
}

// putFile sends one file unless the registry has it, and returns how many bytes it has sent. A connection that fails is tried again.
func (p *Place) putFile(ctx context.Context, path string, e fetch.Entry) (int64, error) {
	d := ocispec.Descriptor{MediaType: fileType, Digest: digest.NewDigestFromEncoded(digest.SHA256, e.SHA256), Size: e.Size}
	for try := 1; ; try++ {
		there, err := p.repo.Blobs().Exists(ctx, d)
		if err == nil && there {
			return 0, nil
		}
		if err == nil {
			if err = send(ctx, p.repo, path, d); err == nil {
				return e.Size, nil
			}
		}
		err = failed("file "+e.Name, err)
		if failure, ok := errors.AsType[*fetch.Failure](err); !ok || failure.Kind != fetch.Unavailable || try == maxTries {
			return 0, err
		}
	}
}

// send sends a file. Its path is no part of a failure.
func send(ctx context.Context, repo *remote.Repository, path string, d ocispec.Descriptor) error {
	f, err := os.Open(path)
	if err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		return fetch.Failf(fetch.Internal, "the file cannot be read: %v", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Size() != d.Size {
		return fetch.Failf(fetch.Corrupt, "the file does not have the %d bytes that it should have", d.Size)
	}
	return repo.Blobs().Push(ctx, d, io.LimitReader(f, d.Size))
}

// pushBytes sends a small blob unless the registry has it.
func pushBytes(ctx context.Context, repo *remote.Repository, d ocispec.Descriptor, text []byte) error {
	there, err := repo.Blobs().Exists(ctx, d)
	if err != nil || there {
		return err
	}
	return repo.Blobs().Push(ctx, d, reader(text))
}
