package updates

import (
	"context"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// Install continues with an update that waits for a confirmation. Errors: Busy, Conflict.
func (u *Updates) Install(ask admin.UpdateInstall) (admin.SystemUpdate, error) {
	const op = "updates.Install"
	select {
	case <-u.turn:
	default:
		return u.Update(), edgewise.Errorf(op, edgewise.Busy, "another update is on its way: wait for it, or cancel it")
	}
	continues := false
	defer func() {
		if !continues {
			u.turn <- struct{}{}
		}
	}()
	u.mu.Lock()
	waits, question := u.job != nil && u.job.State == admin.UpdateWaiting, ""
	if waits {
		question = u.job.Confirm
	}
	u.mu.Unlock()
	if !waits {
		return u.Update(), edgewise.Errorf(op, edgewise.Conflict, "no update waits to be installed")
	}
	if !ask.Confirmed {
		return u.Update(), edgewise.Errorf(op, edgewise.Conflict, `it waits for a confirmation: %s Send {"confirmed": true}`,
			question)
	}
	var err error
	continues, err = u.install(true)
	if err != nil {
		u.ended(err)
	}
	return u.Update(), err
}

// install begins to install a checked update. A package only needs the restart. continues tells that the installation
// goes on in the background, and returns the turn when it ends.
func (u *Updates) install(confirmed bool) (continues bool, err error) {
	if u.config.Packaging.Kind == update.Package {
		u.change(func(j *admin.UpdateJob) { j.State, j.Confirm, j.Ended = admin.UpdateReady, "", time.Now().UTC() })
		return false, nil
	}
	u.change(func(j *admin.UpdateJob) { j.State, j.Confirm = admin.UpdateInstalling, "" })
	u.work.Go(func() {
		defer func() { u.turn <- struct{}{} }()
		ctx, cancel := context.WithTimeout(u.base, installTimeout)
		defer cancel()
		if err := u.write(ctx, confirmed); err != nil {
			u.ended(err)
		}
		u.refresh(ctx)
		u.publish()
	})
	return true, nil
}

// installTimeout bounds an installation: a slow USB stick writes 1 MB/s.
const installTimeout = time.Hour

// write lets RAUC write the bundle into the slot that does not run.
func (u *Updates) write(ctx context.Context, confirmed bool) error {
	rauc, err := update.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rauc.Close() }()
	if confirmed { // the hook in the slot refuses older versions unless the helper allows them
		if _, err := u.config.Helper.Ask(ctx, helper.Request{Do: helper.DoOlder}, nil, nil); err != nil {
			return err
		}
		defer func() {
			if _, err := u.config.Helper.Ask(ctx, helper.Request{Do: helper.DoNoOlder}, nil, nil); err != nil {
				u.config.Logger.Error("the floor for versions is open until the next start", "error", err)
			}
		}()
	}
	status, err := rauc.Status(ctx)
	if err != nil {
		return err
	}
	u.mu.Lock()
	version := u.job.Version
	u.mu.Unlock()
	if err := u.expect(other(status), version, update.ActionUpdate, false); err != nil {
		return err
	}
	err = rauc.Install(ctx, u.path(incomingFile), func(percent int, doing string) {
		u.change(func(j *admin.UpdateJob) { j.Percent, j.Doing = percent, doing })
	})
	if u.base.Err() != nil { // the program stops; RAUC continues, and the next start of the program sees how it ended
		return err
	}
	if err != nil {
		return errors.Join(err, u.remember(nil))
	}
	u.remove()
	if err := u.expect(other(status), version, update.ActionUpdate, true); err != nil {
		return err
	}
	u.refresh(ctx)
	u.change(func(j *admin.UpdateJob) {
		j.State, j.Percent, j.Doing, j.Ended = admin.UpdateReady, 100, "", time.Now().UTC()
	})
	u.config.Logger.Info("an update is ready: the next boot starts it", "version", version)
	return nil
}

// other is the slot that does not run.
func other(s update.Status) string {
	for _, slot := range s.Slots {
		if slot.Name != s.Booted {
			return slot.Name
		}
	}
	return ""
}

// expect stores which slot the next boot is to start. written tells that the slot is complete.
func (u *Updates) expect(slot, version, action string, written bool) error {
	return u.remember(&update.Pending{
		Slot: slot, Version: version, From: u.config.Packaging.Version, Action: action,
		Boot: u.config.Boot, Time: time.Now().UTC(), Written: written,
	})
}

// remember stores what the next boot is to bring; nil: nothing.
func (u *Updates) remember(p *update.Pending) error {
	u.mu.Lock()
	u.history.Pending = p
	h := u.history
	u.mu.Unlock()
	return h.Write(u.path(HistoryFile))
}

// Cancel discards an update. One that is being written into the slot that does not run cannot be stopped; it can be
// discarded when it is ready. Errors: NotFound, Conflict, and that of ctx.
func (u *Updates) Cancel(ctx context.Context) (admin.SystemUpdate, error) {
	const op = "updates.Cancel"
	for waits := true; waits; {
		if over, err := u.interrupt(); over {
			return u.Update(), err
		}
		again := time.NewTimer(interruptInterval)
		select {
		case <-u.turn:
			defer func() { u.turn <- struct{}{} }()
			waits = false
		case <-again.C:
		case <-ctx.Done():
			return u.Update(), ctx.Err()
		}
		again.Stop()
	}
	u.mu.Lock()
	state := ""
	if u.job != nil {
		state = u.job.State
	}
	staged, pending := u.helperState.Staged != nil, u.history.Pending
	u.mu.Unlock()
	switch {
	case u.config.Packaging.Kind == update.Package && staged:
		if _, err := u.config.Helper.Ask(ctx, helper.Request{Do: helper.DoDiscard}, nil, nil); err != nil {
			return u.Update(), err
		}
	case u.config.Packaging.Kind == update.Image && pending != nil && pending.Boot == u.config.Boot && pending.Written:
		if err := mark(ctx, update.Active, update.Booted); err != nil { // the next boot starts the slot that runs now
			return u.Update(), err
		}
		if err := u.remember(nil); err != nil {
			return u.Update(), err
		}
	case state != admin.UpdateWaiting:
		return u.Update(), edgewise.Errorf(op, edgewise.NotFound, "no update is on its way")
	}
	u.ended(edgewise.Errorf(op, edgewise.Canceled, "the update was discarded"))
	u.refresh(ctx)
	return u.Update(), nil
}

// interruptInterval is how often Cancel tries to interrupt the update that has the turn.
const interruptInterval = 50 * time.Millisecond

// interrupt cancels an update that is being received or checked. over tells that nothing else is to be done, because
// the update was interrupted or, with an error, because it is being written.
func (u *Updates) interrupt() (over bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.job == nil {
		return false, nil
	}
	switch u.job.State {
	case admin.UpdateReceiving, admin.UpdateChecking:
		u.cancel()
		return true, nil
	case admin.UpdateInstalling:
		return true, edgewise.Errorf("updates.Cancel", edgewise.Conflict,
			"the update is being written into the slot that does not run, which cannot be stopped: discard it when it is ready")
	}
	return false, nil
}

// Rollback returns to the version that ran before: of an image with the next boot, of the package now. Errors:
// Conflict, Unsupported, Unavailable.
func (u *Updates) Rollback(ctx context.Context) (admin.SystemUpdate, error) {
	const op = "updates.Rollback"
	if err := u.available(ctx); err != nil {
		return u.Update(), err
	}
	now := u.Update()
	if now.Previous == "" {
		return now, edgewise.Errorf(op, edgewise.Conflict, "there is no version to go back to")
	}
	if u.config.Packaging.Kind == update.Package {
		return now, u.inBackground(helper.DoRollback)
	}
	if err := mark(ctx, update.Active, update.Other); err != nil {
		return now, err
	}
	u.mu.Lock()
	slot := other(u.status)
	u.mu.Unlock()
	if err := u.expect(slot, now.Previous, update.ActionRollback, true); err != nil {
		return now, err
	}
	u.refresh(ctx)
	u.publish()
	return u.Update(), nil
}

// inBackground asks the helper for a change that ends this program. It returns once the helper has begun, or has
// refused.
func (u *Updates) inBackground(do string) error {
	begun := make(chan error, 1)
	u.work.Go(func() {
		begins := false
		_, err := u.config.Helper.Ask(u.base, helper.Request{Do: do}, nil, func(doing string) {
			u.change(func(j *admin.UpdateJob) { j.State, j.Doing = admin.UpdateInstalling, doing })
			if !begins {
				begun <- nil
				begins = true
			}
		})
		if !begins {
			begun <- err
		} else if err != nil && edgewise.KindOf(err) != edgewise.Canceled {
			u.ended(err)
		}
		u.refresh(u.base)
	})
	return <-begun
}

// Restart restarts what an update needs to take effect: the machine of an image, the appliance of a package. Errors:
// Unsupported, Unavailable.
func (u *Updates) Restart(ctx context.Context) error {
	if err := u.available(ctx); err != nil {
		return err
	}
	if u.config.Packaging.Kind == update.Package && u.Update().Restart {
		return u.inBackground(helper.DoApply)
	}
	_, err := u.config.Helper.Ask(ctx, helper.Request{Do: helper.DoRestart}, nil, nil)
	return err
}

// FactoryReset erases models, accounts and settings. ask.Confirm must be admin.ResetWord. Errors: Invalid, Unsupported,
// Unavailable.
func (u *Updates) FactoryReset(ctx context.Context, ask admin.FactoryReset) error {
	const op = "updates.FactoryReset"
	if ask.Confirm != admin.ResetWord {
		return edgewise.Errorf(op, edgewise.Invalid, "confirm is %.40q: write %q to erase all models, accounts and settings",
			ask.Confirm, admin.ResetWord).WithField("confirm")
	}
	if u.config.Packaging.Kind != update.Image && u.config.Packaging.Kind != update.Package {
		return edgewise.Errorf(op, edgewise.Unsupported,
			"this box does not erase itself: stop it and remove its data folder %s", u.config.Dir)
	}
	if u.config.Packaging.Kind == update.Package {
		u.work.Go(func() { // the helper stops this program before it answers
			if _, err := u.config.Helper.Ask(u.base, helper.Request{Do: helper.DoReset}, nil, nil); err != nil &&
				u.base.Err() == nil {
				u.config.Logger.Error("the factory reset failed", "error", err)
			}
		})
		return nil
	}
	_, err := u.config.Helper.Ask(ctx, helper.Request{Do: helper.DoReset}, nil, nil)
	return err
}
