package oci

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// Place is a repository of a registry: one artifact where its URL has a tag or a digest, otherwise the artifacts of all tags that are
// version numbers.
type Place struct {
	repo  *remote.Repository
	at    string // a tag or a digest; empty: all versions
	model string // the last part of the repository's name
	trust trust
	tell  func(fetch.Artifact) error
}

var (
	_ place.Opener    = Open
	_ place.Place     = (*Place)(nil)
	_ place.Resolver  = (*Place)(nil)
	_ place.Putter    = (*Place)(nil)
	_ place.Signer    = (*Place)(nil)
	_ place.Artifacts = (*Place)(nil)
)

// Open opens the place at the URL of a request, which is oci://registry/name, with :tag or @sha256:... behind it. Failures: Invalid.
func Open(ctx context.Context, r *fetch.Request) (place.Place, error) {
	return open(ctx, r.URL, r.Credentials, bounds{})
}

func open(ctx context.Context, url string, with fetch.Credentials, b bounds) (*Place, error) {
	t, err := newTrust(with.Trust)
	if err != nil {
		return nil, err
	}
	b = b.complete()
	c, err := newClient(with, b)
	if err != nil {
		return nil, err
	}
	repo, at, err := c.repository(ctx, url)
	if err != nil {
		return nil, err
	}
	return &Place{repo: repo, at: at, model: path.Base(repo.Reference.Repository), trust: t}, nil
}

// Describe gives what each artifact is to tell, before List gives its files.
func (p *Place) Describe(tell func(fetch.Artifact) error) { p.tell = tell }

// Close ends nothing.
func (p *Place) Close() error { return nil }

// Resolve returns the digest of the manifest that the URL names now.
func (p *Place) Resolve(ctx context.Context) (string, error) {
	a, err := manifestOf(ctx, p.repo, cmp.Or(p.at, defaultTag))
	if err != nil {
		return "", err
	}
	return a.descriptor.Digest.String(), nil
}

// defaultTag is the tag that is meant where none is said.
const defaultTag = "latest"

// List gives the files in Triton's layout, with the model's configuration from its highest version.
func (p *Place) List(ctx context.Context, page func([]fetch.Entry) error) error {
	versions, err := p.versions(ctx)
	if err != nil {
		return err
	}
	count := 0
	for i, v := range versions {
		entries, err := p.listOne(ctx, v, i+1 == len(versions))
		if err != nil {
			return err
		}
		if count += len(entries); count > fetch.MaxEntries {
			return fetch.Failf(fetch.TooLarge, "%s has more than %d files", p.name(), fetch.MaxEntries)
		}
		for part := range slices.Chunk(entries, fetch.MaxPage) {
			if err := page(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// name names the repository, for messages.
func (p *Place) name() string { return p.repo.Reference.Registry + "/" + p.repo.Reference.Repository }

// version is a tag with its number.
type version struct {
	at     string
	number int64
}

// versions lists what the URL names, by number.
func (p *Place) versions(ctx context.Context) ([]version, error) {
	if p.at != "" {
		return []version{{p.at, 1}}, nil
	}
	var list []version
	err := p.repo.Tags(ctx, "", func(tags []string) error {
		for _, tag := range tags {
			n, err := strconv.ParseInt(tag, 10, 64)
			if err == nil && n > 0 && strconv.FormatInt(n, 10) == tag {
				list = append(list, version{tag, n})
			}
		}
		return nil
	})
	if err != nil {
		return nil, failed(p.name(), err)
	}
	if len(list) > maxVersions {
		return nil, fetch.Failf(fetch.TooLarge, "%s has %d tags that are versions: at most %d are read", p.name(), len(list), maxVersions)
	}
	slices.SortFunc(list, func(a, b version) int { return cmp.Compare(a.number, b.number) })
	if len(list) == 0 {
		list = []version{{defaultTag, 1}}
	}
	return list, nil
}

// listOne lists the files of one version, once its signature is what is wanted; configured: with the configuration.
func (p *Place) listOne(ctx context.Context, v version, configured bool) ([]fetch.Entry, error) {
	a, err := manifestOf(ctx, p.repo, v.at)
	if err != nil {
		return nil, err
	}
	signer, err := p.trust.check(ctx, p.repo, a)
	if err != nil {
		return nil, err
	}
	notes, err := annotations(a)
	if err != nil {
		return nil, err
	}
	if p.at == "" && a.form == fetch.FormModelcar {
		return nil, fetch.Failf(fetch.Unsupported, "%s is an image: only \"edgewise model pull\" takes the files of one", a.thing)
	}
	if p.tell != nil {
		err = p.tell(fetch.Artifact{Digest: a.descriptor.Digest.String(), Form: a.form, SignedBy: signer, Annotations: notes})
		if err != nil {
			return nil, err
		}
	}
	entries, err := a.entries()
	for i := range entries {
		e := &entries[i]
		e.Tag = a.descriptor.Digest.String()
		if isConfiguration(e.Name) {
			e.Name = p.model + "/" + e.Name
		} else {
			e.Name = fmt.Sprintf("%s/%d/%s", p.model, v.number, e.Name)
		}
	}
	if !configured {
		entries = slices.DeleteFunc(entries, func(e fetch.Entry) bool { return strings.Count(e.Name, "/") == 1 })
	}
	return entries, err
}

// isConfiguration tells whether a file of a version is the model's configuration, which stands in the model's folder.
func isConfiguration(file string) bool {
	return strings.HasPrefix(file, "config.") && !strings.Contains(file, "/")
}

// Open reads a file of an artifact from offset on.
func (p *Place) Open(ctx context.Context, e fetch.Entry, offset int64) (io.ReadCloser, error) {
	d := ocispec.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, e.SHA256), Size: e.Size}
	if d.Digest.Validate() != nil {
		return nil, fetch.Failf(fetch.Invalid, "a file of a registry needs its SHA-256")
	}
	body, err := p.repo.Blobs().Fetch(ctx, d)
	if err == nil && offset > 0 {
		err = skip(body, offset)
	}
	if err != nil {
		return nil, failed(nameOf(p.repo, d.Digest.String()), err)
	}
	return reading{body}, nil
}

// skip goes to an offset of a blob, by reading where the registry sends whole blobs alone.
func skip(body io.ReadCloser, offset int64) error {
	var err error
	if seeker, ok := body.(io.Seeker); ok {
		_, err = seeker.Seek(offset, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, body, offset)
	}
	if err != nil {
		_ = body.Close()
	}
	return err
}

// reading is the body of a blob, whose errors are failures.
type reading struct{ io.ReadCloser }

func (r reading) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = failed("the file", err)
	}
	return n, err
}

// annotations returns those of an artifact within their bound.
func annotations(a *artifact) (map[string]string, error) {
	size := 0
	for key, value := range a.manifest.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotations {
		return nil, fetch.Failf(fetch.TooLarge, "%s has %d bytes of annotations: at most %d are read", a.thing, size, maxAnnotations)
	}
	return a.manifest.Annotations, nil
}
