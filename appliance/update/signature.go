package update

import (
	"io"
	"path/filepath"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
)

// MaxSignature bounds the bytes of a signature.
const MaxSignature = 4 << 10

// Keys reads the public keys of a folder, which are its files *.pub. Errors: Unsupported when there is none, Corrupt.
func Keys(folder string) ([]minisign.PublicKey, error) {
	const op = "update.Keys"
	paths, err := filepath.Glob(filepath.Join(folder, "*.pub"))
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	if len(paths) == 0 {
		return nil, edgewise.Errorf(op, edgewise.Unsupported, "this package was made without the key of a release in %s: "+
			"nothing that is uploaded can be believed; install the new package by hand", folder)
	}
	var keys []minisign.PublicKey
	for _, path := range paths {
		key, err := minisign.PublicKeyFromFile(path)
		if err != nil {
			return nil, edgewise.Errorf(op, edgewise.Corrupt, "%s is no public key of minisign: %w", path, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Verify returns nil when one of the keys has signed the content. what names the content in errors. Error: Denied.
func Verify(keys []minisign.PublicKey, content io.ReadSeeker, signature []byte, what string) error {
	const op = "update.Verify"
	var sig minisign.Signature
	if len(signature) > MaxSignature || sig.UnmarshalText(signature) != nil {
		return edgewise.Errorf(op, edgewise.Denied, "the signature is none that minisign makes: send the file .minisig "+
			"that belongs to the %s", what)
	}
	known := false
	for _, key := range keys {
		if key.ID() != sig.KeyID {
			continue
		}
		known = true
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return edgewise.Errorf(op, edgewise.Internal, "%w", err)
		}
		hashed := minisign.NewReader(content)
		if _, err := io.Copy(io.Discard, hashed); err != nil {
			return edgewise.Errorf(op, edgewise.Internal, "reading the %s: %w", what, err)
		}
		if hashed.Verify(key, signature) {
			return nil
		}
	}
	if !known {
		return edgewise.Errorf(op, edgewise.Denied, "the %s is signed with the key %016X, which this box does not know",
			what, sig.KeyID)
	}
	return edgewise.Errorf(op, edgewise.Denied, "the signature is not of this %s: it was changed or cut off "+
		"on its way", what)
}
