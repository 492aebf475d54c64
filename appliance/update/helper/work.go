package helper

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
)

// The files of the folder.
const (
	stateFile    = "state.json"
	stagedFile   = "staged.deb"
	previousFile = "previous.deb"
	currentFile  = "current.deb"
)

func (s *Server) at(name string) string { return filepath.Join(s.config.Folder, name) }

// do does one thing.
func (s *Server) do(ctx context.Context, r Request, file *os.File, say func(string)) (Answer, error) {
	const op = "helper.do"
	packages := map[string]bool{DoStage: true, DoApply: true, DoRollback: true}
	if packages[r.Do] && s.config.Image {
		return Answer{}, edgewise.Errorf(op, edgewise.Unsupported, "this box was flashed: it is updated with bundles, not "+
			"with packages")
	}
	switch r.Do {
	case DoState:
		st, err := s.state(ctx)
		return Answer{State: &st}, err
	case DoStage:
		st, err := s.stage(ctx, file, r.Signature)
		return Answer{State: &st}, err
	case DoDiscard:
		return Answer{}, s.discard()
	case DoApply:
		return Answer{}, s.apply(ctx, say)
	case DoRollback:
		return Answer{}, s.rollback(ctx, say)
	case DoRestart:
		return Answer{}, s.restart(ctx)
	case DoReset:
		return Answer{}, s.reset(ctx)
	case DoOlder, DoNoOlder:
		return Answer{}, s.older(r.Do == DoOlder)
	case DoFailures:
		log, err := s.failures(ctx, r.Since)
		return Answer{Log: log}, err
	}
	return Answer{}, edgewise.Errorf(op, edgewise.Invalid, "the helper does not know %.40q", r.Do)
}

// run runs a program of the system.
func run(ctx context.Context, name string, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out, edgewise.Errorf("helper.run", edgewise.Internal, "%s: %w: %s", name, err, tail(string(exit.Stderr), 1000))
	}
	if err != nil {
		return out, edgewise.Errorf("helper.run", edgewise.Internal, "%w", err)
	}
	return out, nil
}

// tail is the end of a text.
func tail(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = text[len(text)-most:]
		if _, after, ok := strings.Cut(text, "\n"); ok {
			text = after
		}
	}
	return strings.ToValidUTF8(text, "?")
}

// state is what there is now.
func (s *Server) state(ctx context.Context) (State, error) {
	kept, err := s.kept()
	if err != nil {
		return kept, err
	}
	kept.Installed, err = s.installed(ctx)
	if kept.Staged != nil {
		kept.Staged.Older = update.Compare(kept.Staged.Version, kept.Installed) < 0
	}
	return kept, err
}

// installed is the version of the package; empty on an image, which was not made by installing.
func (s *Server) installed(ctx context.Context) (string, error) {
	if s.config.Image {
		return "", nil
	}
	out, err := s.config.Run(ctx, "dpkg-query", "--show", "--showformat=${Version}", packageName)
	return strings.TrimSpace(string(out)), err
}

// kept is what the folder remembers.
func (s *Server) kept() (State, error) {
	var st State
	text, err := os.ReadFile(s.at(stateFile))
	if os.IsNotExist(err) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		return State{}, edgewise.Errorf("helper.state", edgewise.Corrupt, "%s: %w", s.at(stateFile), err)
	}
	return st, nil
}

// change changes what the folder remembers.
func (s *Server) change(how func(*State)) error {
	st, err := s.kept()
	if err != nil {
		return err
	}
	how(&st)
	st.Installed = ""
	text, err := json.Marshal(st)
	if err == nil {
		err = update.WriteFile(s.at(stateFile), text, 0o644)
	}
	if err != nil {
		return edgewise.Errorf("helper.change", edgewise.Internal, "%w", err)
	}
	return nil
}
