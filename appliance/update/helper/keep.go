package helper

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// keepCurrent makes sure that the folder has the package which is installed. One that came another way, such as by apt,
// is packed again of its files.
func (s *Server) keepCurrent(ctx context.Context, version string) error {
	if _, err := os.Stat(s.at(currentFile)); err == nil {
		if _, kept, _, err := s.fields(ctx, s.at(currentFile)); err == nil && kept == version {
			return nil
		}
	}
	return s.repack(ctx)
}

// repack makes a package of what is installed.
func (s *Server) repack(ctx context.Context) error {
	const op = "helper.repack"
	tree, err := os.MkdirTemp(s.config.Folder, "repack-")
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	defer func() { _ = os.RemoveAll(tree) }()
	if err := s.repackControl(ctx, filepath.Join(tree, "DEBIAN")); err != nil {
		return err
	}
	list, err := s.config.Run(ctx, "dpkg-query", "--listfiles", packageName)
	if err != nil {
		return err
	}
	for path := range strings.Lines(string(list)) {
		if err := repackFile(strings.TrimSpace(path), tree); err != nil {
			return edgewise.Errorf(op, edgewise.Internal, "%w", err)
		}
	}
	made := s.at(currentFile + ".new")
	if _, err := s.config.Run(ctx, "dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, made); err != nil {
		return err
	}
	if err := os.Rename(made, s.at(currentFile)); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	return nil
}

// repackControl writes the control files: dpkg keeps the scripts, and the fields in its status.
func (s *Server) repackControl(ctx context.Context, to string) error {
	const op = "helper.repack"
	if err := os.MkdirAll(to, 0o755); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	status, err := s.config.Run(ctx, "dpkg-query", "--status", packageName)
	if err != nil {
		return err
	}
	var control bytes.Buffer
	inFiles := false
	for line := range strings.Lines(string(status)) {
		inFiles = strings.HasPrefix(line, "Conffiles:") || inFiles && strings.HasPrefix(line, " ")
		if !inFiles && !strings.HasPrefix(line, "Status:") {
			control.WriteString(line)
		}
	}
	files := map[string][]byte{"control": control.Bytes()}
	for _, name := range []string{"conffiles", "postinst", "preinst", "prerm", "postrm"} {
		if text, err := s.config.Run(ctx, "dpkg-query", "--control-show", packageName, name); err == nil {
			files[name] = text
		}
	}
	for name, text := range files {
		mode := fs.FileMode(0o755)
		if name == "control" || name == "conffiles" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(to, name), text, mode); err != nil {
			return edgewise.Errorf(op, edgewise.Internal, "%w", err)
		}
	}
	return nil
}

// repackFile copies a file, folder or link of the system into a tree.
func repackFile(path, tree string) error {
	to := filepath.Join(tree, path)
	info, err := os.Lstat(path)
	if os.IsNotExist(err) { // removed by the administrator, as a piece of documentation may be
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return os.MkdirAll(to, 0o755)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); !os.IsExist(err) {
			return err
		}
		return nil
	case !info.Mode().IsRegular():
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}
