package helper

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
)

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
