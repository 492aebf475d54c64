package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Run moves the rollouts until ctx ends.
func (s *Rollouts) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer func() {
		work.Wait()
		for _, r := range s.rollouts() {
			r.closeShadow()
		}
	}()
	ticker := time.NewTicker(cmp.Or(s.config.Interval, interval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.wake:
		}
		for _, r := range s.rollouts() {
			shown := s.get(r)
			if !shown.Active() && !r.unsaved.Load() {
				continue
			}
			s.withdraw(r, &shown)
			select {
			case r.moves <- struct{}{}:
				work.Go(func() {
					s.step(ctx, r)
					<-r.moves
				})
			default: // it is being moved
			}
		}
	}
}

// withdraw sends all requests to the predecessor of a candidate that has to go back. What else is to be done may wait
// for the disk, or for others that change the model.
func (s *Rollouts) withdraw(r *rollout, shown *admin.Rollout) {
	if !shown.Active() {
		return
	}
	if _, breach := r.trial.read(); breach == "" {
		return
	}
	safe := *shown
	switch shown.State {
	case admin.RolloutRunning, admin.RolloutPromoting:
		safe.Percent = 0
	default:
		safe.State = admin.RolloutReverting
	}
	s.split(r, &safe)
}

// step moves a rollout as far as it goes now. Like all that follow it is called by the holder of r.moves.
func (s *Rollouts) step(ctx context.Context, r *rollout) {
	shown := s.get(r)
	if !shown.Active() {
		if r.unsaved.Load() {
			_ = s.try(r, &shown)
		}
		return
	}
	now := time.Now()
	if !r.stepped.IsZero() { // not by the clock of the wall, which jumps, and not while the box is off
		shown.Elapsed += min(now.Sub(r.stepped), 5*interval).Seconds()
	}
	r.stepped = now
	record := s.config.Models.Lookup(shown.Model)
	if reason := replaced(record, &shown); reason != "" {
		s.finish(r, shown, admin.RolloutReplaced, reason)
		return
	}
	ready := s.look(r, record, &shown)
	m, breach := r.trial.read()
	switch {
	case breach != "":
		s.back(ctx, r, shown, breach)
	case now.Before(r.retry):
	case shown.State == admin.RolloutReverting:
		s.revert(ctx, r, shown)
	case shown.State == admin.RolloutPromoting:
		_ = s.promote(ctx, r, shown, "")
	case !ready: // it waits
	case shown.State == admin.RolloutWatching:
		s.watch(r, shown, &m)
	case passed(shown.Plan.Stages[shown.Stage], m.Stage, shown.Elapsed):
		s.forward(ctx, r, shown)
	default:
		s.keep(r, shown)
	}
}

// replaced tells why a rollout cannot go on with what is stored of its model, "" when it can.
func replaced(record *edgewise.Record, r *admin.Rollout) string {
	if record == nil || record.Version(r.Plan.Version) == nil || record.Version(r.From) == nil {
		return "one of the two versions was deleted"
	}
	switch live := record.Label(edgewise.LiveLabel); {
	case live == r.From && r.State != admin.RolloutWatching, live == r.Plan.Version && r.State != admin.RolloutRunning:
		return ""
	default:
		return fmt.Sprintf("the label live was moved to version %d", live)
	}
}

// look makes requests count while the versions that are compared are ready, and tells whether they are. A candidate that
// cannot be made ready has to go back.
func (s *Rollouts) look(r *rollout, record *edgewise.Record, shown *admin.Rollout) bool {
	if !record.Wanted {
		r.halt()
		return false
	}
	states := map[int64]edgewise.Status{}
	for _, status := range s.config.Manager.Statuses() {
		if status.ID.Name == shown.Model {
			states[status.ID.Version] = status
		}
	}
	candidate, known := states[shown.Plan.Version]
	if known && candidate.State == edgewise.StateUnavailable {
		r.trial.fail(fmt.Sprintf("version %d cannot answer: %.300s", shown.Plan.Version, candidate.Reason))
	}
	watching := shown.State == admin.RolloutWatching
	ready := known && candidate.State == edgewise.StateReady &&
		(watching || shown.State == admin.RolloutRunning && states[shown.From].State == edgewise.StateReady)
	switch {
	case ready && !r.ready:
		r.trial.count(time.Now(), shown.Percent/100, watching)
		if !watching {
			s.openShadow(r, shown)
		}
	case !ready:
		r.halt()
	}
	r.ready = ready
	return ready
}

// halt makes no request count, until look finds both versions ready again.
func (r *rollout) halt() {
	r.ready = false
	r.trial.pause()
	r.closeShadow()
}

// keep shows how long a stage lasts, and stores what was measured once in a while.
func (s *Rollouts) keep(r *rollout, shown admin.Rollout) {
	s.set(r, shown)
	if r.unsaved.Load() || time.Since(r.saved) >= saveEvery {
		_ = s.try(r, &shown)
	}
}

// try stores a rollout, and remembers when that fails.
func (s *Rollouts) try(r *rollout, shown *admin.Rollout) error {
	err := s.save(r, shown)
	r.saved = time.Now()
	r.unsaved.Store(err != nil)
	if err != nil {
		s.config.Logger.Error("a rollout was not stored", "model", shown.Model, "state", shown.State, "error", err)
	}
	return err
}

// set makes shown what is shown of a rollout.
func (s *Rollouts) set(r *rollout, shown admin.Rollout) {
	s.mu.Lock()
	r.shown = shown
	s.mu.Unlock()
}

// enter brings a rollout to a state that is stored before it takes effect. Errors: those of the store, and then nothing
// has changed.
func (s *Rollouts) enter(r *rollout, shown admin.Rollout, text string) error {
	r.halt()
	if text != "" {
		note(&shown, text)
	}
	if err := s.try(r, &shown); err != nil {
		r.retry = time.Now().Add(retryAfter)
		return err
	}
	s.set(r, shown)
	s.split(r, &shown)
	s.told(&shown, text)
	s.wakeUp()
	return nil
}

// told tells those who listen of a change.
func (s *Rollouts) told(shown *admin.Rollout, text string) {
	s.config.Logger.Info("rollout", "model", shown.Model, "version", shown.Plan.Version, "state", shown.State, "stage",
		shown.Stage+1, "percent", shown.Percent, "reason", text)
	s.config.Publish("rollout", *shown)
}

// forward goes to the next stage, or promotes the candidate after the last one. When the disk does not take that, the
// stage begins again.
func (s *Rollouts) forward(ctx context.Context, r *rollout, shown admin.Rollout) {
	stages := shown.Plan.Stages
	if shown.Stage+1 == len(stages) {
		_ = s.promote(ctx, r, shown, "all stages are passed")
		return
	}
	shown.Stage++
	shown.Elapsed, shown.Percent = 0, stages[shown.Stage].Percent
	r.trial.pause()
	r.trial.stage(len(stages))
	_ = s.enter(r, shown, stageText(&shown))
}

func stageText(r *admin.Rollout) string {
	return fmt.Sprintf("stage %d of %d: %g %% of the requests", r.Stage+1, len(r.Plan.Stages), r.Percent)
}

// promote makes the candidate live. When that fails, the last stage goes on, and the promotion is tried again. Errors:
// those of the store and of the registry.
func (s *Rollouts) promote(ctx context.Context, r *rollout, shown admin.Rollout, why string) error {
	if shown.State != admin.RolloutPromoting {
		shown.State = admin.RolloutPromoting
		if shown.Reason != "" {
			why = "" // it is tried again
		}
		if err := s.enter(r, shown, why); err != nil {
			return err
		}
		shown = s.get(r)
	}
	if record := s.config.Models.Lookup(shown.Model); record == nil ||
		record.Label(edgewise.LiveLabel) != shown.Plan.Version {
		ctx := admin.WithCause(ctx, admin.CauseRollout)
		_, err := s.config.Models.SetLabel(ctx, shown.Model, edgewise.LiveLabel, shown.Plan.Version)
		if e, ok := errors.AsType[*edgewise.Error](err); ok && e.Reason == admin.ReasonGoldens {
			r.trial.fail(err.Error())
			s.back(ctx, r, shown, err.Error())
			return err
		}
		if err != nil {
			text := ""
			if shown.Reason != err.Error() {
				text = "the promotion has failed: " + err.Error()
			}
			shown.State, shown.Reason = admin.RolloutRunning, err.Error()
			_ = s.enter(r, shown, text)
			r.retry = time.Now().Add(retryAfter)
			return err
		}
	}
	shown.State, shown.Elapsed, shown.Percent, shown.Reason = admin.RolloutWatching, 0, 100, ""
	return s.enter(r, shown, fmt.Sprintf("version %d is live", shown.Plan.Version))
}

// watch bets the stake of the watch, part by part, and ends it when its time is over.
func (s *Rollouts) watch(r *rollout, shown admin.Rollout, m *measured) {
	total := float64(*shown.Plan.WatchSeconds)
	if shown.Elapsed >= total {
		s.finish(r, shown, admin.RolloutDone, fmt.Sprintf("version %d stays live", shown.Plan.Version))
		return
	}
	due := 1 + math.Floor(lateParts*shown.Elapsed/total)
	if staked := math.Round(lateParts * (1 - m.Late.Kept)); staked < due {
		r.trial.stakeLate((due - staked) / lateParts)
	}
	s.keep(r, shown)
}

// back takes the candidate back.
func (s *Rollouts) back(ctx context.Context, r *rollout, shown admin.Rollout, reason string) {
	s.withdraw(r, &shown)
	if shown.State == admin.RolloutRunning {
		s.finish(r, shown, admin.RolloutBack, reason)
		return
	}
	if shown.State != admin.RolloutReverting {
		shown.State, shown.Reason = admin.RolloutReverting, reason
		note(&shown, reason)
		s.set(r, shown)
		_ = s.try(r, &shown) // going back does not wait for the disk
		s.split(r, &shown)
		s.told(&shown, reason)
	}
	if !time.Now().Before(r.retry) {
		s.revert(ctx, r, shown)
	}
}

// revert moves the label live back. When that fails it is tried again: until then the split sends all requests to the
// predecessor.
func (s *Rollouts) revert(ctx context.Context, r *rollout, shown admin.Rollout) {
	record := s.config.Models.Lookup(shown.Model)
	if record == nil {
		return // it was deleted just now
	}
	if record.Label(edgewise.LiveLabel) != shown.From {
		if _, err := s.config.Models.Rollback(ctx, shown.Model, edgewise.LiveLabel); err != nil {
			r.retry = time.Now().Add(retryAfter)
			s.config.Logger.Error("a rollout cannot go back", "model", shown.Model, "error", err)
			return
		}
	}
	s.finish(r, shown, admin.RolloutBack, cmp.Or(shown.Reason, "rolled back"))
}

// finish ends a rollout. What the disk does not take is stored later.
func (s *Rollouts) finish(r *rollout, shown admin.Rollout, state, reason string) {
	shown.State, shown.Reason, shown.Ended, shown.Percent = state, reason, time.Now().UTC(), 0
	if state == admin.RolloutDone {
		shown.Percent = 100
	}
	r.halt()
	note(&shown, reason)
	s.unsplit(r, shown.Model)
	_ = s.try(r, &shown)
	s.set(r, shown)
	s.publishTrials()
	s.told(&shown, reason)
	if r.byHand {
		return
	}
	err := s.config.Audit(admin.AuditEntry{
		Actor: "box", Action: "rollout." + state, Target: shown.Model,
		Detail: fmt.Sprintf("version %d: %s", shown.Plan.Version, reason),
	})
	if err != nil {
		s.config.Logger.Error("the audit log was not written", "model", shown.Model, "error", err)
	}
	if state == admin.RolloutBack {
		s.config.Alert(admin.AlertRollout, shown.Model, fmt.Sprintf("Rollout: version %d of %s was taken back: %s",
			shown.Plan.Version, shown.Model, reason))
	}
}
