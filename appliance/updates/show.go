package updates

import (
	"fmt"
	"os"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// Update describes how the system is updated, and the state of that.
func (u *Updates) Update() admin.SystemUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := admin.SystemUpdate{
		Kind: string(u.config.Packaging.Kind), Takes: u.config.Packaging.Kind.Wants(),
		Version: u.config.Packaging.Version, Slots: []admin.SystemSlot{},
	}
	if s.Version == "" {
		s.Version = u.config.Version
	}
	if u.job != nil {
		job := *u.job
		s.Job = &job
	}
	switch u.config.Packaging.Kind {
	case update.Image:
		u.showSlots(&s)
	case update.Package:
		u.showPackages(&s)
	default:
		s.Problem = "This box is not updated by its page."
		return s
	}
	s.Possible = u.problem == nil
	if u.problem != nil {
		s.Problem = u.problem.Error()
	}
	return s
}

// Next is the version of the slot that the next start takes, where that is not the one that runs; otherwise empty.
func (u *Updates) Next() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status.Next()
}

// showSlots describes an image. u.mu is held.
func (u *Updates) showSlots(s *admin.SystemUpdate) {
	s.Compatible, s.Booted, s.Next = u.status.Compatible, u.status.Booted, u.status.Primary
	for _, slot := range u.status.Slots {
		shown := admin.SystemSlot{
			Name: slot.Name, State: slot.State, Good: slot.Good, Version: slot.Version,
			Installed: slot.Installed,
		}
		if slot.Name == s.Booted {
			shown.Version = s.Version
		} else if slot.Good {
			s.Previous = slot.Version
			if slot.Version == "" {
				s.Previous = "as flashed"
			}
		}
		s.Slots = append(s.Slots, shown)
	}
	if p := u.history.Pending; p != nil && p.Boot == u.config.Boot && p.Written {
		s.Restart, s.Previous = true, ""
	}
	if r := u.history.Last; r != nil {
		s.Last = &admin.UpdateResult{Action: r.Action, Version: r.Version, From: r.From, Time: r.Time, Error: r.Error}
	}
}

// showPackages describes the Debian package. u.mu is held.
func (u *Updates) showPackages(s *admin.SystemUpdate) {
	s.Previous = u.helperState.Previous
	// a package that an earlier run of the program has staged is ready, unless it may be unconfirmed
	if staged := u.helperState.Staged; staged != nil {
		s.Restart = u.job != nil && u.job.State == admin.UpdateReady || u.job == nil && !staged.Older
	}
	if r := u.helperState.Last; r != nil {
		at, _ := time.Parse(time.RFC3339, r.Time)
		s.Last = &admin.UpdateResult{Action: update.ActionUpdate, Version: r.Version, From: r.From, Time: at, Error: r.Error}
		if r.Action == helper.DoRollback {
			s.Last.Action = update.ActionRollback
		}
	}
}

// FailedBoot describes a start that failed and was not acknowledged, nil when there is none.
func (u *Updates) FailedBoot() *admin.FailedBoot {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.history.Fallback
	if f == nil || u.logPending {
		return nil
	}
	text := fmt.Sprintf("Version %s in slot %s did not pass its check in three starts, or somebody chose the other slot "+
		"at the start. Slot %s runs again, with all data.", f.Version, f.Slot, f.Runs)
	if u.logBytes == 0 {
		text += " It has left no log: it ended before the data partition was there."
	}
	return &admin.FailedBoot{
		Version: f.Version, Slot: f.Slot, Runs: f.Runs, Time: f.Time, Text: text,
		LogBytes: u.logBytes,
	}
}

// BootLog returns the log of the start that failed last. Errors: NotFound.
func (u *Updates) BootLog() ([]byte, error) {
	text, err := os.ReadFile(u.path(logFile))
	switch {
	case os.IsNotExist(err):
		return nil, edgewise.Errorf("updates.BootLog", edgewise.NotFound, "there is no log of a start that failed")
	case err != nil:
		return nil, edgewise.Errorf("updates.BootLog", edgewise.Internal, "%w", err)
	}
	return text, nil
}

// AcknowledgeBoot removes the report of a failed start. Its log stays until the next one. Errors: NotFound.
func (u *Updates) AcknowledgeBoot() error {
	u.mu.Lock()
	if u.history.Fallback == nil || u.logPending {
		u.mu.Unlock()
		return edgewise.Errorf("updates.AcknowledgeBoot", edgewise.NotFound, "no start has failed that was not acknowledged")
	}
	u.history.Fallback = nil
	h := u.history
	u.mu.Unlock()
	defer u.publish()
	return h.Write(u.path(HistoryFile))
}
