package helper

import (
	"context"
	"os"
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
	if err := os.Rename(s.at(currentFile), s.at(previousFile)); err != nil {
		return s.finish(result, edgewise.Errorf(op, edgewise.Internal, "%w", err), func(st *State) { st.Staged = nil })
	}
	if err := os.Rename(s.at(stagedFile), s.at(currentFile)); err != nil {
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
	err = s.install(ctx, s.at(previousFile))
	if err == nil {
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
