package helper

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"

	"aead.dev/minisign"
	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
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
	keys, err := update.Keys(s.config.Keys)
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
	if err := update.Verify(keys, own, signature, "package"); err != nil {
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
