package helper

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
)

const unit = "edgewise.service"

// apply installs the staged package. When the appliance does not come up with it, the package that ran before is put
// back.
func (s *Server) apply(ctx context.Context, say func(string)) error {
	const op = "helper.apply"
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	if st.Staged == nil {
		return edgewise.Errorf(op, edgewise.Conflict, "no package waits to be installed")
	}
	say("keeping version " + st.Installed)
	if err := s.keepCurrent(ctx, st.Installed); err != nil {
		return err
	}
	say("installing version " + st.Staged.Version)
	result := &Result{Action: DoApply, Version: st.Staged.Version, From: st.Installed}
	if err = s.install(ctx, s.at(stagedFile)); err == nil {
		say("starting version " + st.Staged.Version)
		err = s.healthy(ctx)
	}
	if err != nil {
		result.Log = s.unitLog(ctx)
		say("putting version " + st.Installed + " back")
		err = s.putBack(ctx, err)
		_ = os.Remove(s.at(stagedFile))
		return s.finish(result, err, func(st *State) { st.Staged = nil })
	}
	if err = os.Rename(s.at(currentFile), s.at(previousFile)); err == nil {
		err = os.Rename(s.at(stagedFile), s.at(currentFile))
	}
	if err != nil {
		return s.finish(result, edgewise.Errorf(op, edgewise.Internal, "%w", err), func(st *State) { st.Staged = nil })
	}
	return s.finish(result, nil, func(k *State) { k.Staged, k.Previous = nil, st.Installed })
}

// putBack installs the package that ran before a failed installation.
func (s *Server) putBack(ctx context.Context, cause error) error {
	if err := s.install(ctx, s.at(currentFile)); err != nil {
		return edgewise.Errorf("helper.apply", edgewise.Internal, "%w; putting the version before it back failed too: %w",
			cause, err)
	}
	return edgewise.Errorf("helper.apply", edgewise.KindOf(cause), "%w; the version before it is back", cause)
}

// rollback installs the package that ran before; the one that runs takes its place.
func (s *Server) rollback(ctx context.Context, say func(string)) error {
	const op = "helper.rollback"
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.at(previousFile)); err != nil || st.Previous == "" {
		return edgewise.Errorf(op, edgewise.Conflict, "there is no version to go back to: this box was not updated yet")
	}
	if err := s.keepCurrent(ctx, st.Installed); err != nil {
		return err
	}
	say("going back to version " + st.Previous)
	result := &Result{Action: DoRollback, Version: st.Previous, From: st.Installed}
	if err = s.install(ctx, s.at(previousFile)); err == nil {
		err = s.healthy(ctx)
	}
	if err != nil {
		result.Log = s.unitLog(ctx)
		return s.finish(result, s.putBack(ctx, err), func(*State) {})
	}
	exchanged := s.at(currentFile + ".was")
	for _, move := range [][2]string{
		{s.at(currentFile), exchanged},
		{s.at(previousFile), s.at(currentFile)},
		{exchanged, s.at(previousFile)},
	} {
		if err := os.Rename(move[0], move[1]); err != nil {
			return s.finish(result, edgewise.Errorf(op, edgewise.Internal, "%w", err), func(*State) {})
		}
	}
	return s.finish(result, nil, func(k *State) { k.Previous = st.Installed })
}

// finish notes how an installation went.
func (s *Server) finish(r *Result, err error, more func(*State)) error {
	r.Time = time.Now().UTC().Format(time.RFC3339)
	if err != nil {
		r.Error = err.Error()
	} else {
		r.Log = ""
	}
	noted := s.change(func(st *State) {
		more(st)
		st.Last = r
	})
	if err == nil {
		err = noted
	}
	return err
}

// install hands a package of the folder to dpkg. A configuration that somebody has changed stays.
func (s *Server) install(ctx context.Context, path string) error {
	if _, err := s.config.Run(ctx, "dpkg", "--install", "--force-confold", "--force-downgrade", path); err != nil {
		return edgewise.Errorf("helper.install", edgewise.Internal, "the package does not install: %w", err)
	}
	return nil
}

// healthy waits until the appliance is up and stays up. Where there is no systemd nobody has started it.
func (s *Server) healthy(ctx context.Context) error {
	if !s.config.Running() {
		return nil
	}
	const op = "helper.healthy"
	end, since, main := time.Now().Add(s.config.Health), time.Time{}, ""
	ticker := time.NewTicker(max(s.config.Steady/10, time.Millisecond))
	defer ticker.Stop()
	for time.Now().Before(end) {
		out, _ := s.config.Run(ctx, "systemctl", "show", "--property=ActiveState", "--property=MainPID", unit)
		now := strings.TrimSpace(string(out))
		switch {
		case !strings.Contains(now, "ActiveState=active"):
			since, main = time.Time{}, ""
		case now != main:
			since, main = time.Now(), now
		case time.Since(since) >= s.config.Steady:
			return nil
		}
		<-ticker.C
	}
	return edgewise.Errorf(op, edgewise.Unavailable, "the new version does not come up and stay up within %v",
		s.config.Health)
}

// unitLog is the end of what the appliance has logged.
func (s *Server) unitLog(ctx context.Context) string {
	if !s.config.Running() {
		return ""
	}
	out, _ := s.config.Run(ctx, "journalctl", "--quiet", "--unit="+unit, "--lines=200", "--output=short-iso", "--no-pager")
	return tail(string(out), MaxLog/4)
}

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
