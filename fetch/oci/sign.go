package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"aead.dev/minisign"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// A signature is an artifact whose subject is the manifest that it signs. Its one file is what minisign writes for the bytes of
// that manifest.
const (
	signatureType     = "application/vnd.edgewise.signature.v1"
	signatureFileType = "application/vnd.edgewise.signature.minisign.v1"
	signatureFile     = "manifest.json.minisig"
	maxSignatures     = 100     // of one manifest that are looked at
	maxSignature      = 4 << 10 // bytes of one
	maxKeys           = 100
)

// trust is whose signatures count.
type trust struct {
	keys    []minisign.PublicKey
	require bool
}

// newTrust reads keys. Failures: Invalid.
func newTrust(t fetch.Trust) (trust, error) {
	out := trust{require: t.Require}
	if len(t.Keys) > maxKeys {
		return out, fetch.Failf(fetch.Invalid, "%d keys are trusted: at most %d are possible", len(t.Keys), maxKeys)
	}
	for i, text := range t.Keys {
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(text)); err != nil {
			return out, fetch.Failf(fetch.Invalid, "trusted key %d is no public key of minisign", i+1)
		}
		out.keys = append(out.keys, key)
	}
	return out, nil
}

// check returns the id of a trusted key with which a manifest is signed, "" where none is. Failures: Denied where one is required and
// there is none, and those of a manifest.
func (t trust) check(ctx context.Context, repo *remote.Repository, a *artifact) (string, error) {
	if len(t.keys) == 0 {
		if t.require {
			return "", fetch.Failf(fetch.Denied, "%s is refused: a signature is required, and this box trusts no key", a.thing)
		}
		return "", nil
	}
	signer, reason, err := t.signer(ctx, repo, a)
	switch {
	case signer != "" || !t.require:
		return signer, nil
	case err != nil:
		return "", failed(a.thing+": its signatures", err)
	}
	return "", fetch.Failf(fetch.Denied, "%s is refused: %s", a.thing, reason)
}

// signer looks through the signatures of a manifest for one of a trusted key, and says why none of them counts.
func (t trust) signer(ctx context.Context, repo *remote.Repository, a *artifact) (id, reason string, err error) {
	var list []ocispec.Descriptor
	err = repo.Referrers(ctx, a.descriptor, signatureType, func(page []ocispec.Descriptor) error {
		list = append(list, page[:min(len(page), maxSignatures-len(list))]...)
		return nil
	})
	if err != nil {
		return "", "", err
	}
	reason = "it is not signed"
	for _, d := range list {
		text, problem := signatureAt(ctx, repo, d, a)
		if failure, ok := errors.AsType[*fetch.Failure](problem); ok && failure.Kind != fetch.Unavailable {
			reason = "its signature cannot be used: " + failure.Message
			continue
		}
		if problem != nil {
			err = cmp.Or(err, problem)
			continue
		}
		if id, reason = t.verify(a.text, text); id != "" {
			return id, "", nil
		}
	}
	return "", reason, err
}

// verify returns the id of the trusted key that has signed text, or why none has.
func (t trust) verify(text, signature []byte) (id, reason string) {
	var s minisign.Signature
	if s.UnmarshalText(signature) != nil {
		return "", "its signature is none that minisign makes"
	}
	at := slices.IndexFunc(t.keys, func(key minisign.PublicKey) bool { return key.ID() == s.KeyID })
	if at < 0 {
		return "", fmt.Sprintf("it is signed with the key %016X, which this box does not trust", s.KeyID)
	}
	if !minisign.Verify(t.keys[at], text, signature) {
		return "", fmt.Sprintf("its signature with the key %016X is of something else, or was changed", s.KeyID)
	}
	return fmt.Sprintf("%016X", s.KeyID), ""
}

// signatureAt fetches the signature of a manifest at a referrer.
func signatureAt(ctx context.Context, repo *remote.Repository, d ocispec.Descriptor, signed *artifact) ([]byte, error) {
	a, err := textOf(ctx, repo, d.Digest.String())
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	switch err := json.Unmarshal(a.text, &m); {
	case err != nil:
		return nil, fetch.Failf(fetch.Invalid, "its manifest is not the JSON of a manifest")
	case m.Subject == nil || m.Subject.Digest != signed.descriptor.Digest:
		return nil, fetch.Failf(fetch.Invalid, "it is about another manifest")
	case len(m.Layers) != 1 || m.Layers[0].MediaType != signatureFileType:
		return nil, fetch.Failf(fetch.Invalid, "it has not the one file of a signature")
	}
	return blobBytes(ctx, repo, m.Layers[0], maxSignature)
}

// Sign signs the artifact of the place with a private key of minisign, and returns the digest of what was signed. Failures: those of
// a manifest.
func (p *Place) Sign(ctx context.Context, key string) (string, error) {
	var private minisign.PrivateKey
	if err := private.UnmarshalText([]byte(key)); err != nil {
		return "", fetch.Failf(fetch.Invalid, "this is no private key of minisign without a password")
	}
	a, err := manifestOf(ctx, p.repo, cmp.Or(p.at, defaultTag))
	if err != nil {
		return "", err
	}
	hashed := minisign.NewReader(bytes.NewReader(a.text))
	_, _ = io.Copy(io.Discard, hashed) // memory is read, which cannot fail
	name := nameOf(p.repo, a.descriptor.Digest.String())
	signature := hashed.SignWithComments(private, name, "signature of a manifest by edgewise")
	file := descriptorOf(signatureFileType, signature)
	file.Annotations = map[string]string{ocispec.AnnotationTitle: signatureFile}
	empty := []byte("{}") // of the same type, since some registries list referrers by the type of their configuration
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: signatureType,
		Config: descriptorOf(signatureType, empty), Layers: []ocispec.Descriptor{file}, Subject: &a.descriptor,
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = pushBytes(ctx, p.repo, m.Config, empty)
	}
	if err == nil {
		err = pushBytes(ctx, p.repo, file, signature)
	}
	if err == nil {
		err = p.repo.Manifests().Push(ctx, descriptorOf(m.MediaType, text), reader(text))
	}
	if err != nil {
		return "", failed(a.thing+": its signature", err)
	}
	return a.descriptor.Digest.String(), nil
}
