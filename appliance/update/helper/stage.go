package helper

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"aead.dev/minisign"
	"github.com/edgewise-ai/edgewise"
	"golang.org/x/sys/unix"
)

// packageName is the only package that the helper installs.
const packageName = "edgewise"

// stage takes a package: it is copied to where only root writes, and only then looked at, so that nobody can exchange
// it behind its check.
func (s *Server) stage(ctx context.Context, file *os.File, signature string) (State, error) {
	const op = "helper.stage"
	if file == nil {
		return State{}, edgewise.Errorf(op, edgewise.Invalid, "no package came with the request")
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return State{}, edgewise.Errorf(op, edgewise.Invalid, "what came with the request is no file")
	}
	keys, err := Keys(s.config.Keys)
	if err != nil {
		return State{}, err
	}
	if err := s.discard(); err != nil {
		return State{}, err
	}
	if _, err := unix.Seek(int(file.Fd()), 0, unix.SEEK_SET); err != nil {
		return State{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	version, err := s.take(ctx, file, []byte(signature), keys)
	if err != nil {
		return State{}, errors.Join(err, s.discard())
	}
	if err := s.change(func(st *State) { st.Staged = &Staged{Version: version} }); err != nil {
		return State{}, err
	}
	return s.state(ctx)
}

// take copies and checks a package.
func (s *Server) take(ctx context.Context, file *os.File, signature []byte, keys []minisign.PublicKey) (version string,
	err error,
) {
	const op = "helper.stage"
	if err := copyBounded(file, s.at(stagedFile), MaxPackage); err != nil {
		return "", err
	}
	own, err := os.Open(s.at(stagedFile))
	if err != nil {
		return "", edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	defer func() { _ = own.Close() }()
	if err := Verify(keys, own, signature); err != nil {
		return "", err
	}
	name, version, arch, err := s.fields(ctx, s.at(stagedFile))
	if err != nil {
		return "", err
	}
	if name != packageName {
		return "", edgewise.Errorf(op, edgewise.Invalid, "the package is %q: want %q", name, packageName)
	}
	if arch != runtime.GOARCH {
		return "", edgewise.Errorf(op, edgewise.Invalid, "the package is for %s: this machine is %s", arch, runtime.GOARCH)
	}
	return version, nil
}

// fields reads what a package says of itself.
func (s *Server) fields(ctx context.Context, path string) (name, version, arch string, err error) {
	out, err := s.config.Run(ctx, "dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", path)
	if err != nil {
		return "", "", "", edgewise.Errorf("helper.fields", edgewise.Invalid, "the file is no Debian package: %w", err)
	}
	parts := strings.Fields(string(out))
	if len(parts) != 3 {
		return "", "", "", edgewise.Errorf("helper.fields", edgewise.Invalid,
			"the package does not say its name, version and architecture")
	}
	return parts[0], parts[1], parts[2], nil
}

// discard throws the staged package away.
func (s *Server) discard() error {
	if err := os.Remove(s.at(stagedFile)); err != nil && !os.IsNotExist(err) {
		return edgewise.Errorf("helper.discard", edgewise.Internal, "%w", err)
	}
	return s.change(func(st *State) { st.Staged = nil })
}

// Keys reads the public keys of a folder, which are its files *.pub. Errors: Unsupported when there is none, Corrupt.
func Keys(folder string) ([]minisign.PublicKey, error) {
	const op = "helper.Keys"
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

// Verify returns nil when one of the keys has signed the content. Error: Denied.
func Verify(keys []minisign.PublicKey, content io.ReadSeeker, signature []byte) error {
	const op = "helper.Verify"
	var sig minisign.Signature
	if len(signature) > MaxSignature || sig.UnmarshalText(signature) != nil {
		return edgewise.Errorf(op, edgewise.Denied, "the signature is none that minisign makes: send the file .minisig "+
			"that belongs to the package")
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
			return edgewise.Errorf(op, edgewise.Internal, "reading the package: %w", err)
		}
		if hashed.Verify(key, signature) {
			return nil
		}
	}
	if !known {
		return edgewise.Errorf(op, edgewise.Denied, "the package is signed with the key %016X, which this box does not know",
			sig.KeyID)
	}
	return edgewise.Errorf(op, edgewise.Denied, "the signature is not of this package: it was changed or cut off "+
		"on its way")
}

// copyBounded copies at most most bytes of from into a new file of root's alone.
func copyBounded(from io.Reader, path string, most int64) error {
	const op = "helper.stage"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	n, err := io.Copy(f, io.LimitReader(from, most+1))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	if n > most {
		return edgewise.Errorf(op, edgewise.TooLarge, "the package has more than %d bytes", most).WithLimit(most)
	}
	return nil
}
