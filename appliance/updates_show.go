package appliance

import (
	"fmt"
	"os"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// Update says how the box is updated and where that stands.
func (u *updates) Update() admin.SystemUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := admin.SystemUpdate{Kind: string(u.how.Kind), Takes: u.how.Kind.Wants(), Version: u.how.Version, Slots: []admin.SystemSlot{}}
	if s.Version == "" {
		s.Version = Version
	}
	if u.job != nil {
		job := *u.job
		s.Job = &job
	}
	switch u.how.Kind {
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

// showSlots describes an image. u.mu is held.
func (u *updates) showSlots(s *admin.SystemUpdate) {
	s.Compatible, s.Booted, s.Next = u.status.Compatible, u.status.Booted, u.status.Primary
	for _, slot := range u.status.Slots {
		shown := admin.SystemSlot{Name: slot.Name, State: slot.State, Good: slot.Good, Version: slot.Version, Installed: slot.Installed}
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
	if p := u.history.Pending; p != nil && p.Boot == u.boot && p.Written {
		s.Restart, s.Previous = true, ""
	}
	if r := u.history.Last; r != nil {
		s.Last = &admin.UpdateResult{Action: r.Action, Version: r.Version, From: r.From, Time: r.Time, Error: r.Error}
	}
}

// showPackages describes the Debian package. u.mu is held.
func (u *updates) showPackages(s *admin.SystemUpdate) {
	s.Previous = u.kept.Previous
	// what an earlier run of the program has staged is ready, unless nobody can know whether it was confirmed
	if staged := u.kept.Staged; staged != nil {
		s.Restart = u.job != nil && u.job.State == admin.UpdateReady || u.job == nil && !staged.Older
	}
	if r := u.kept.Last; r != nil {
		at, _ := time.Parse(time.RFC3339, r.Time)
		s.Last = &admin.UpdateResult{Action: update.ActionUpdate, Version: r.Version, From: r.From, Time: at, Error: r.Error}
		if r.Action == helper.DoRollback {
			s.Last.Action = update.ActionRollback
		}
	}
}

// failedBoot describes a start that failed, nil when there is none that nobody has acknowledged.
func (u *updates) failedBoot() *admin.FailedBoot {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.history.Fallback
	if f == nil || u.untold {
		return nil
	}
	text := fmt.Sprintf("Version %s in slot %s did not pass its check in three starts, or somebody chose the other slot at the start. Slot %s runs again, with all data.", f.Version, f.Slot, f.Runs)
	if u.log == 0 {
		text += " It has left no log: it ended before the data partition was there."
	}
	return &admin.FailedBoot{Version: f.Version, Slot: f.Slot, Runs: f.Runs, Time: f.Time, Text: text, LogBytes: u.log}
}

// BootLog returns the log of the start that failed last. Errors: NotFound.
func (u *updates) BootLog() ([]byte, error) {
	text, err := os.ReadFile(u.path(updateLog))
	switch {
	case os.IsNotExist(err):
		return nil, edgewise.Errorf("appliance.BootLog", edgewise.NotFound, "there is no log of a start that failed")
	case err != nil:
		return nil, edgewise.Errorf("appliance.BootLog", edgewise.Internal, "%w", err)
	}
	return text, nil
}

// AcknowledgeBoot takes the news of a failed start away. Its log stays until the next one. Errors: NotFound.
func (u *updates) AcknowledgeBoot() error {
	u.mu.Lock()
	if u.history.Fallback == nil || u.untold {
		u.mu.Unlock()
		return edgewise.Errorf("appliance.AcknowledgeBoot", edgewise.NotFound, "no start has failed that was not acknowledged")
	}
	u.history.Fallback = nil
	h := u.history
	u.mu.Unlock()
	defer u.tell()
	return h.Write(u.path(updateHistory))
}

// updateWarnings lists what the page's first screen is to say of the system.
func (a *App) updateWarnings() []admin.Warning {
	list := []admin.Warning{}
	if f := a.updates.failedBoot(); f != nil {
		list = append(list, admin.Warning{Code: "failed_boot", Severity: "error", Text: f.Text, Next: "Read the log of the failed start under Settings, System."})
	}
	if s := a.safe.show(); s != nil {
		list = append(list, admin.Warning{Code: "safe_start", Severity: "error", Text: s.Text, Next: "Switch the model off that does it, then load the others again, under Settings, System."})
	}
	if s := a.updates.Update(); s.Restart {
		list = append(list, admin.Warning{Code: "restart", Severity: "info", Text: "An update is ready.", Next: "Restart when it suits you, under Settings, System."})
	}
	return list
}
