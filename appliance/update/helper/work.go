package helper

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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
	case DoDrivers, DoDriverInstall, DoDriverRemove, DoDriverRollback:
		d, err := s.drivers(r, file)
		return Answer{Drivers: d}, err
	}
	return Answer{}, edgewise.Errorf(op, edgewise.Invalid, "the helper does not know %.40q", r.Do)
}

// Run runs a program of the system and returns what it prints.
func Run(ctx context.Context, name string, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out, edgewise.Errorf("helper.Run", edgewise.Internal, "%s: %w: %s", name, err, tail(string(exit.Stderr), 1000))
	}
	if err != nil {
		return out, edgewise.Errorf("helper.Run", edgewise.Internal, "%w", err)
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

const (
	// DowngradeFile lets the hook in the slot take an older bundle while it is there. It is gone with the next start.
	DowngradeFile = "/run/edgewise-allow-downgrade"
	// grubEnvironment has the variable that the boot menu reads.
	grubEnvironment = "/efi/EFI/debian/grubenv"
	// restartDelay lets the appliance answer before it is stopped.
	restartDelay = "--on-active=1s"
	// maxFailures bounds the failed starts of which the log is shown: each slot is tried three times.
	maxFailures = 3
)

// restart restarts what the update is of: the machine of an image, otherwise the appliance. It returns before that.
func (s *Server) restart(ctx context.Context) error {
	if s.config.Image {
		return s.later(ctx, "systemctl", "reboot")
	}
	return s.later(ctx, "systemctl", "restart", unit)
}

// later runs a command in a moment, by systemd.
func (s *Server) later(ctx context.Context, command ...string) error {
	if !s.config.Running() {
		return edgewise.Errorf("helper.restart", edgewise.Unsupported, "systemd does not manage this machine: restart "+
			"it by hand")
	}
	_, err := s.config.Run(ctx, "systemd-run", append([]string{"--quiet", "--collect", restartDelay}, command...)...)
	return err
}

// reset erases what the box has learned: on an image at the next start, which it begins; otherwise now.
func (s *Server) reset(ctx context.Context) error {
	if s.config.Image {
		if _, err := s.config.Run(ctx, "grub-editenv", grubEnvironment, "set", "FACTORY=1"); err != nil {
			return err
		}
		return s.restart(ctx)
	}
	if !s.config.Running() {
		return edgewise.Errorf("helper.reset", edgewise.Unsupported, "systemd does not manage this machine: stop the "+
			"appliance and remove what is in %s", s.config.Data)
	}
	if _, err := s.config.Run(ctx, "systemctl", "stop", unit); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.config.Data)
	if err != nil {
		return edgewise.Errorf("helper.reset", edgewise.Internal, "%w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.config.Data, e.Name())); err != nil {
			return edgewise.Errorf("helper.reset", edgewise.Internal, "%w", err)
		}
	}
	_, err = s.config.Run(ctx, "systemctl", "start", unit)
	return err
}

// older lets the hook of an image take what is older, or ends that.
func (s *Server) older(allow bool) error {
	if !s.config.Image {
		return edgewise.Errorf("helper.older", edgewise.Unsupported, "only a box that was flashed has a floor")
	}
	var err error
	if allow {
		err = os.WriteFile(s.config.Downgrade, nil, 0o600)
	} else if err = os.Remove(s.config.Downgrade); os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		return edgewise.Errorf("helper.older", edgewise.Internal, "%w", err)
	}
	return nil
}

// start is a start of the machine as journalctl lists it.
type start struct {
	Index int    `json:"index"`
	ID    string `json:"boot_id"`
	First int64  `json:"first_entry"` // microseconds since 1970
}

// failures is the log of the starts between the one with the id since and this one, each with its end, the latest last.
// A start that ended before the data were there has left none.
func (s *Server) failures(ctx context.Context, since string) (string, error) {
	out, err := s.config.Run(ctx, "journalctl", "--list-boots", "--output=json", "--no-pager")
	if err != nil {
		return "", err
	}
	var starts []start
	if err := json.Unmarshal(out, &starts); err != nil {
		return "", edgewise.Errorf("helper.failures", edgewise.Unsupported, "the list of starts cannot be read: %w", err)
	}
	since = strings.ReplaceAll(since, "-", "")
	from := 0
	for i, b := range starts {
		if b.ID == since {
			from = i + 1
		}
	}
	var failed []start
	for _, b := range starts[from:] {
		if b.Index != 0 {
			failed = append(failed, b)
		}
	}
	failed = failed[max(0, len(failed)-maxFailures):]
	var log strings.Builder
	for _, b := range failed {
		text, err := s.config.Run(ctx, "journalctl", "--quiet", "--boot="+b.ID, "--lines=400", "--output=short-monotonic",
			"--no-pager")
		if err != nil {
			return log.String(), err
		}
		log.WriteString("start of " + time.UnixMicro(b.First).UTC().Format(time.RFC3339) + "\n" +
			tail(string(text), MaxLog/(2*maxFailures)) + "\n\n")
	}
	return log.String(), nil
}
