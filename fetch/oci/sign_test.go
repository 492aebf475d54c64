package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// keys makes a pair, with the text of the public key.
func keys(t *testing.T) (string, minisign.PrivateKey) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), private
}

func sign(t *testing.T, url string, key minisign.PrivateKey) {
	t.Helper()
	p, err := open(context.Background(), url, fetch.Credentials{}, waits)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sign(context.Background(), string(text)); err != nil {
		t.Fatal(err)
	}
}

// attach stores a signature that nobody here would make: of bytes, or those bytes themselves, about a subject.
func (s *server) attach(t *testing.T, signature []byte, about, subject ocispec.Descriptor) {
	t.Helper()
	blob := s.putBlob(t, signature)
	blob.MediaType = signatureFileType
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: signatureType,
		Config: s.putBlob(t, []byte("{}")), Layers: []ocispec.Descriptor{blob}, Subject: &subject,
		Annotations: map[string]string{"about": about.Digest.String()},
	}
	m.Config.MediaType = signatureType
	p, err := open(context.Background(), s.host+"/box/cat:1", fetch.Credentials{}, waits)
	if err != nil {
		t.Fatal(err)
	}
	text := encode(t, m)
	if err := p.repo.Manifests().Push(context.Background(), descriptorOf(m.MediaType, text), bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func signed(key minisign.PrivateKey, text []byte) []byte {
	hashed := minisign.NewReader(bytes.NewReader(text))
	_, _ = io.Copy(io.Discard, hashed)
	return hashed.Sign(key)
}

func TestASignatureOfATrustedKeyIsRequiredWhereTheBoxSaysSo(t *testing.T) {
	trusted, key := keys(t)
	_, foreign := keys(t)
	for _, api := range []bool{true, false} { // false: the registry does not list referrers, and a tag does
		for _, c := range []struct {
			name   string
			sign   func(t *testing.T, s *server, url string, m *artifact)
			keys   []string
			refuse string // empty: it is pulled
		}{
			{"signed", func(t *testing.T, _ *server, url string, _ *artifact) { sign(t, url, key) }, []string{trusted}, ""},
			{"signed twice", func(t *testing.T, _ *server, url string, _ *artifact) {
				sign(t, url, foreign)
				sign(t, url, key)
			}, []string{trusted}, ""},
			{"not signed", func(*testing.T, *server, string, *artifact) {}, []string{trusted}, "it is not signed"},
			{"no key is trusted", func(t *testing.T, _ *server, url string, _ *artifact) { sign(t, url, key) }, nil, "this box trusts no key"},
			{"signed by somebody else", func(t *testing.T, _ *server, url string, _ *artifact) {
				sign(t, url, foreign)
			}, []string{trusted}, "which this box does not trust"},
			{"a signature of something else", func(t *testing.T, s *server, _ string, m *artifact) {
				s.attach(t, signed(key, []byte("another manifest")), m.descriptor, m.descriptor)
			}, []string{trusted}, "is of something else"},
			{"a signature that was changed", func(t *testing.T, s *server, _ string, m *artifact) {
				text := bytes.Replace(signed(key, m.text), []byte("\n"), []byte("\n\n"), 1)
				s.attach(t, text, m.descriptor, m.descriptor)
			}, []string{trusted}, "none that minisign makes"},
			{"no signature", func(t *testing.T, s *server, _ string, m *artifact) {
				s.attach(t, []byte("yes, it is good"), m.descriptor, m.descriptor)
			}, []string{trusted}, "none that minisign makes"},
			{"a signature that is too long", func(t *testing.T, s *server, _ string, m *artifact) {
				s.attach(t, bytes.Repeat([]byte("x"), maxSignature+1), m.descriptor, m.descriptor)
			}, []string{trusted}, "at most"},
		} {
			t.Run(fmt.Sprintf("%s, referrers: %v", c.name, api), func(t *testing.T) {
				s := newServer(t, registry.WithReferrersSupport(api))
				s.set(func(w http.ResponseWriter, r *http.Request) bool { // as many registries do
					return r.Method == http.MethodDelete && status(http.StatusMethodNotAllowed)(w, r)
				})
				url := "oci://" + s.host + "/box/cat:1"
				publish(t, url, map[string]string{"model.onnx": random(1000)})
				p, err := open(context.Background(), url, fetch.Credentials{}, waits)
				if err != nil {
					t.Fatal(err)
				}
				m, err := manifestOf(context.Background(), p.repo, "1")
				if err != nil {
					t.Fatal(err)
				}
				c.sign(t, s, url, m)
				artifacts, _, err := list(t, fetch.Request{URL: url, Credentials: fetch.Credentials{Trust: fetch.Trust{Keys: c.keys, Require: true}}})
				if c.refuse != "" {
					wantFailure(t, err, fetch.Denied, c.refuse)
				} else if err != nil || artifacts[0].SignedBy == "" {
					t.Errorf("%v: %+v", describeError(err), artifacts)
				}
				if _, _, err := list(t, fetch.Request{URL: url, Credentials: fetch.Credentials{Trust: fetch.Trust{Keys: c.keys}}}); err != nil {
					t.Errorf("where none is required: %v", describeError(err))
				}
			})
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	for _, keys := range [][]string{{""}, {"RWQ"}, {"untrusted comment: a key\nx"}, make([]string, maxKeys+1)} {
		_, _, err := list(t, fetch.Request{URL: "registry.example/cat:1", Credentials: fetch.Credentials{Trust: fetch.Trust{Keys: keys}}})
		wantFailure(t, err, fetch.Invalid, "trusted")
	}
}
