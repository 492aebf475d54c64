package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

const (
	scheme       = "oci://"
	maxReference = 1024 // bytes: a host name, a repository's name and a digest, with room
	maxRedirects = 5
	maxTries     = 3 // of a request
)

// bounds are waits, and what else tests choose.
type bounds struct {
	silent  time.Duration  // of a registry that is to answer; 0: 30 seconds
	longest time.Duration  // that a registry may ask for by Retry-After; 0: 10 seconds
	roots   *x509.CertPool // certificates that are believed; nil: those of the system, or of SSL_CERT_FILE and SSL_CERT_DIR
	docker  string         // the folder of Docker's config.json; empty: where Docker has it
}

func (b bounds) complete() bounds {
	if b.silent == 0 {
		b.silent = 30 * time.Second
	}
	if b.longest == 0 {
		b.longest = 10 * time.Second
	}
	return b
}

// client speaks to registries, over TLS but on loopback.
type client struct {
	transport http.RoundTripper // without repetition
	client    *auth.Client
}

// newClient returns a client. Failures: Invalid.
func newClient(c fetch.Credentials, b bounds) (*client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = b.silent
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.TLSClientConfig = &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS12}
	policy := &retry.GenericPolicy{
		Retryable: retry.DefaultPredicate, Backoff: retry.DefaultBackoff,
		MinWait: min(100*time.Millisecond, b.longest), MaxWait: b.longest, MaxRetry: maxTries - 1,
	}
	again := &retry.Transport{Base: transport, Policy: func() retry.Policy { return policy }}
	a := &auth.Client{Client: &http.Client{Transport: again, CheckRedirect: keepTLS}, Cache: auth.NewCache()}
	a.SetUserAgent("edgewise")
	credential, err := credentialOf(c, b.docker)
	a.Credential = credential
	return &client{transport: transport, client: a}, err
}

// errHelper says why Docker's config.json is of no use.
var errHelper = errors.New("the credentials in Docker's config.json cannot be read: programs that keep them are not run")

// credentialOf finds the credentials of a registry: those of the request, otherwise those in Docker's config.json.
func credentialOf(c fetch.Credentials, docker string) (auth.CredentialFunc, error) {
	if c.User != "" || c.Token != "" {
		own := auth.Credential{Username: c.User, Password: c.Password, RefreshToken: c.Token}
		return func(context.Context, string) (auth.Credential, error) { return own, nil }, nil
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if docker != "" {
		store, err = credentials.NewStore(filepath.Join(docker, "config.json"), credentials.StoreOptions{})
	}
	_, homeless := os.UserHomeDir()
	if err != nil && (homeless != nil || errors.Is(err, fs.ErrPermission)) {
		return nil, nil // there are none; the registry says whether it wants any
	}
	if err != nil { // whose words may quote the file
		return nil, fetch.Failf(fetch.Denied, "Docker's config.json is not the JSON that Docker writes")
	}
	of := credentials.Credential(store)
	return func(ctx context.Context, host string) (auth.Credential, error) {
		found, err := of(ctx, host)
		if err != nil {
			return auth.EmptyCredential, errHelper
		}
		return found, nil
	}, nil
}

// keepTLS refuses what leads from TLS to plain text: bytes are verified, but credentials and names would be seen.
func keepTLS(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errNoTLS
	}
	return nil
}

// errNoTLS says why a redirect was not followed.
var errNoTLS = errors.New("the registry leads to a place without TLS")

// repository returns the repository of a URL and what stands behind its name: a tag or a digest, "" for none. Failures: Invalid.
func (c *client) repository(ctx context.Context, url string) (*remote.Repository, string, error) {
	name := strings.TrimPrefix(url, scheme)
	if other, _, is := strings.Cut(name, "://"); is {
		return nil, "", fetch.Failf(fetch.Invalid, "%.300q is no reference: want registry/name:tag; a %.20s:// is no registry, "+
			"but may be a model repository (repository.folders)", url, other)
	}
	ref, err := registry.ParseReference(name)
	if err != nil || len(url) > maxReference {
		return nil, "", fetch.Failf(fetch.Invalid, "%.300q is no reference: want registry/name:tag or registry/name@sha256:...", url)
	}
	repo := &remote.Repository{
		Client: c.client, Reference: registry.Reference{Registry: ref.Registry, Repository: ref.Repository},
		TagListMaxPages: maxPages, ReferrerListMaxPages: maxPages, MaxMetadataBytes: maxManifest,
		SkipReferrersGC: true, // many registries do not let anybody delete
	}
	repo.PlainHTTP = onLoopback(ref.Registry) && c.speaksPlain(ctx, ref.Host())
	return repo, ref.Reference, nil
}

// onLoopback tells whether a registry is on this machine.
func onLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// speaksPlain tells whether a registry on this machine answers TLS with something else.
func (c *client) speaksPlain(ctx context.Context, host string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/v2/", nil)
	if err != nil {
		return false
	}
	response, err := c.transport.RoundTrip(req)
	if err == nil {
		_ = response.Body.Close()
	}
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return plain || errors.Is(err, http.ErrSchemeMismatch)
}
