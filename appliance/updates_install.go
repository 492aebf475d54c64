package appliance

import (
	"context"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// Install goes on with an update that waits for a confirmation. Errors: Conflict.
func (u *updates) Install(ask admin.UpdateInstall) (admin.SystemUpdate, error) {
	const op = "appliance.Install"
	select {
	case <-u.turn:
	default:
		return u.Update(), edgewise.Errorf(op, edgewise.Busy, "another update is on its way: wait for it, or cancel it")
	}
	goesOn := false
	defer func() {
		if !goesOn {
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
		return u.Update(), edgewise.Errorf(op, edgewise.Conflict, `it waits for a confirmation: %s Send {"confirmed": true}`, question)
	}
	var err error
	goesOn, err = u.install(true)
	if err != nil {
		u.ended(err)
	}
	return u.Update(), err
}

// install begins to install what was checked. A package only needs the restart.
func (u *updates) install(confirmed bool) (goesOn bool, err error) {
	if u.how.Kind == update.Package {
		u.change(func(j *admin.UpdateJob) { j.State, j.Confirm, j.Ended = admin.UpdateReady, "", time.Now().UTC() })
		return false, nil
	}
	u.change(func(j *admin.UpdateJob) { j.State, j.Confirm = admin.UpdateInstalling, "" })
	u.work.Go(func() {
		defer func() { u.turn <- struct{}{} }()
		ctx, cancel := context.WithTimeout(u.base, installTime)
		defer cancel()
		if err := u.write(ctx, confirmed); err != nil {
			u.ended(err)
		}
		u.look(ctx)
		u.tell()
	})
	return true, nil
}

// installTime bounds an installation: a slow stick writes 1 MB/s.
const installTime = time.Hour

// write has RAUC write the bundle into the slot that does not run.
func (u *updates) write(ctx context.Context, confirmed bool) error {
	rauc, err := update.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rauc.Close() }()
	if confirmed { // the hook in the slot refuses what is older; what was refused for another reason it takes anyway
		if _, err := u.helper.Ask(ctx, helper.Request{Do: helper.DoOlder}, nil, nil); err != nil {
			return err
		}
		defer func() {
			if _, err := u.helper.Ask(ctx, helper.Request{Do: helper.DoNoOlder}, nil, nil); err != nil {
				u.logger.Error("the floor for versions is open until the next start", "error", err)
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
	if err := u.await(other(status), version, update.ActionUpdate, false); err != nil {
		return err
	}
	err = rauc.Install(ctx, u.path(updateIncoming), func(percent int, doing string) {
		u.change(func(j *admin.UpdateJob) { j.Percent, j.Doing = percent, doing })
	})
	if u.base.Err() != nil { // the program stops; RAUC goes on, and the next start of the program sees how it ended
		return err
	}
	if err != nil {
		return errors.Join(err, u.awaitNothing())
	}
	u.remove()
	if err := u.await(other(status), version, update.ActionUpdate, true); err != nil {
		return err
	}
	u.look(ctx)
	u.change(func(j *admin.UpdateJob) {
		j.State, j.Percent, j.Doing, j.Ended = admin.UpdateReady, 100, "", time.Now().UTC()
	})
	u.logger.Info("an update is ready: the next start takes it", "version", version)
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

// await remembers what the next start is to bring.
func (u *updates) await(slot, version, action string, written bool) error {
	u.mu.Lock()
	u.history.Pending = &update.Pending{Slot: slot, Version: version, From: u.how.Version, Action: action, Boot: u.boot, Time: time.Now().UTC(), Written: written}
	h := u.history
	u.mu.Unlock()
	return h.Write(u.path(updateHistory))
}

// awaitNothing forgets that.
func (u *updates) awaitNothing() error {
	u.mu.Lock()
	u.history.Pending = nil
	h := u.history
	u.mu.Unlock()
	return h.Write(u.path(updateHistory))
}

// Cancel gives an update up. One that is being written cannot be stopped: only the slot that does not run is written, and when
// it is ready it can be given up. Errors: NotFound, Conflict.
func (u *updates) Cancel(ctx context.Context) (admin.SystemUpdate, error) {
	const op = "appliance.Cancel"
	for waits := true; waits; {
		if over, err := u.interrupt(); over {
			return u.Update(), err
		}
		again := time.NewTimer(interruptAgain)
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
	staged, pending := u.kept.Staged != nil, u.history.Pending
	u.mu.Unlock()
	switch {
	case u.how.Kind == update.Package && staged:
		if _, err := u.helper.Ask(ctx, helper.Request{Do: helper.DoDiscard}, nil, nil); err != nil {
			return u.Update(), err
		}
	case u.how.Kind == update.Image && pending != nil && pending.Boot == u.boot && pending.Written:
		if err := u.keepBooted(ctx); err != nil {
			return u.Update(), err
		}
	case state != admin.UpdateWaiting:
		return u.Update(), edgewise.Errorf(op, edgewise.NotFound, "no update is on its way")
	}
	u.ended(edgewise.Errorf(op, edgewise.Canceled, "the update was given up"))
	u.look(ctx)
	return u.Update(), nil
}

// interruptAgain is how often it is looked at whether what has the turn can be interrupted.
const interruptAgain = 50 * time.Millisecond

// interrupt gives up an update that is being received or checked. over says that nothing else is to be done: that, or that it is being
// written.
func (u *updates) interrupt() (over bool, err error) {
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
		return true, edgewise.Errorf("appliance.Cancel", edgewise.Conflict, "the update is being written into the slot that does not run, which cannot be stopped: give it up when it is ready")
	}
	return false, nil
}

// keepBooted makes the slot that runs the one that the next start takes.
func (u *updates) keepBooted(ctx context.Context) error {
	rauc, err := update.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rauc.Close() }()
	if err := rauc.Mark(ctx, update.Active, update.Booted); err != nil {
		return err
	}
	return u.awaitNothing()
}

// Rollback goes back to the version that ran before: of an image with the next start, of the package now. Errors: Conflict,
// Unsupported, Busy.
func (u *updates) Rollback(ctx context.Context) (admin.SystemUpdate, error) {
	const op = "appliance.Rollback"
	if err := u.possible(ctx); err != nil {
		return u.Update(), err
	}
	now := u.Update()
	if now.Previous == "" {
		return now, edgewise.Errorf(op, edgewise.Conflict, "there is no version to go back to")
	}
	if u.how.Kind == update.Package {
		return now, u.inBackground(helper.DoRollback)
	}
	rauc, err := update.Open(ctx)
	if err != nil {
		return now, err
	}
	defer func() { _ = rauc.Close() }()
	if err := rauc.Mark(ctx, update.Active, update.Other); err != nil {
		return now, err
	}
	u.mu.Lock()
	slot := other(u.status)
	u.mu.Unlock()
	if err := u.await(slot, now.Previous, update.ActionRollback, true); err != nil {
		return now, err
	}
	u.look(ctx)
	u.tell()
	return u.Update(), nil
}

// inBackground asks the helper for what ends this program: it returns once the helper has begun, or has refused.
func (u *updates) inBackground(do string) error {
	begun := make(chan error, 1)
	u.work.Go(func() {
		told := false
		_, err := u.helper.Ask(u.base, helper.Request{Do: do}, nil, func(doing string) {
			u.change(func(j *admin.UpdateJob) { j.State, j.Doing = admin.UpdateInstalling, doing })
			if !told {
				begun <- nil
				told = true
			}
		})
		if !told {
			begun <- err
		} else if err != nil && edgewise.KindOf(err) != edgewise.Canceled {
			u.ended(err)
		}
		u.look(u.base)
	})
	return <-begun
}

// Restart restarts what an update needs to take effect: the machine of an image, the appliance of a package. Errors: Unsupported.
func (u *updates) Restart(ctx context.Context) error {
	if err := u.possible(ctx); err != nil {
		return err
	}
	if u.how.Kind == update.Package && u.Update().Restart {
		return u.inBackground(helper.DoApply)
	}
	_, err := u.helper.Ask(ctx, helper.Request{Do: helper.DoRestart}, nil, nil)
	return err
}

// FactoryReset erases models, accounts and settings. Errors: Invalid, Unsupported.
func (u *updates) FactoryReset(ctx context.Context, ask admin.FactoryReset) error {
	const op = "appliance.FactoryReset"
	if ask.Confirm != admin.ResetWord {
		err := edgewise.Errorf(op, edgewise.Invalid, "confirm is %.40q: write %q to erase all models, accounts and settings", ask.Confirm, admin.ResetWord)
		err.Field = "confirm"
		return err
	}
	if u.how.Kind != update.Image && u.how.Kind != update.Package {
		return edgewise.Errorf(op, edgewise.Unsupported, "this box does not erase itself: stop it and remove its data folder %s", u.app.config.DataDir)
	}
	if u.how.Kind == update.Package {
		u.work.Go(func() { // the helper stops this program before it answers
			if _, err := u.helper.Ask(u.base, helper.Request{Do: helper.DoReset}, nil, nil); err != nil && u.base.Err() == nil {
				u.logger.Error("the factory reset failed", "error", err)
			}
		})
		return nil
	}
	_, err := u.helper.Ask(ctx, helper.Request{Do: helper.DoReset}, nil, nil)
	return err
}
