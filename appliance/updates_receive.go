package appliance

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// updatePiece is how much of an update is taken at a time: behind each the disk is asked and listeners are told.
const updatePiece = 4 << 20

// Receive takes an update. It is checked when all of it is there; what needs nobody's confirmation is then installed, which
// goes on after Receive has returned. Errors: Unsupported, Busy, TooLarge, Exhausted, Invalid, Denied, and those of the body.
func (u *updates) Receive(ctx context.Context, p *edgewise.Principal, n httpapi.NewUpdate) (admin.SystemUpdate, error) {
	if err := u.possible(ctx); err != nil {
		return u.Update(), err
	}
	select {
	case <-u.turn:
	default:
		return u.Update(), edgewise.Errorf("appliance.Receive", edgewise.Busy, "another update is on its way: wait for it, or cancel it")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u.mu.Lock()
	u.job = &admin.UpdateJob{State: admin.UpdateReceiving, Size: n.Size, Owner: p.Actor(), Started: time.Now().UTC()}
	u.cancel = cancel
	u.mu.Unlock()
	u.tell()
	goesOn, err := u.take(ctx, n)
	if err != nil {
		u.ended(err)
	}
	if !goesOn {
		u.turn <- struct{}{} // only now: the next one has the same file
	}
	return u.Update(), err
}

// possible returns nil when an update can be taken. What was wrong at the last look is looked at again: it may be over, such as an
// installation from a stick, during which RAUC answers nobody. Errors: Unsupported, Unavailable.
func (u *updates) possible(ctx context.Context) error {
	if u.how.Kind != update.Image && u.how.Kind != update.Package {
		return edgewise.Errorf("appliance.updates", edgewise.Unsupported, "this box is not updated by its page; it takes %s", u.how.Kind.Wants())
	}
	if u.wrong() != nil {
		u.look(ctx)
	}
	return u.wrong()
}

// wrong is why neither RAUC nor the helper was known at the last look; nil when one of them was.
func (u *updates) wrong() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.problem
}

// change changes the job and tells those who listen.
func (u *updates) change(how func(j *admin.UpdateJob)) {
	u.mu.Lock()
	if u.job != nil {
		how(u.job)
	}
	u.mu.Unlock()
	u.tell()
}

// ended says why a job has ended early, and removes its file.
func (u *updates) ended(err error) {
	u.change(func(j *admin.UpdateJob) {
		j.State, j.Error, j.Ended, j.Doing = admin.UpdateFailed, apistatus.Message(err), time.Now().UTC(), ""
		if edgewise.KindOf(err) == edgewise.Canceled {
			j.State, j.Error = admin.UpdateCanceled, ""
		}
	})
	u.remove()
	u.logger.Warn("an update was not installed", "error", err)
}

func (u *updates) remove() {
	if err := os.Remove(u.path(updateIncoming)); err != nil && !os.IsNotExist(err) {
		u.logger.Error("removing an update", "error", err)
	}
}

// take stores and checks an update. goesOn says that it is being installed behind the caller's back.
func (u *updates) take(ctx context.Context, n httpapi.NewUpdate) (goesOn bool, err error) {
	if err := u.app.store.Room(max(n.Size, 0)); err != nil {
		return false, err
	}
	if err := u.save(ctx, n.Body); err != nil {
		return false, err
	}
	u.change(func(j *admin.UpdateJob) { j.State = admin.UpdateChecking })
	question, err := u.check(ctx, n.Signature)
	if err != nil {
		return false, err
	}
	if question != "" && !n.Confirmed {
		u.change(func(j *admin.UpdateJob) { j.State, j.Confirm = admin.UpdateWaiting, question })
		return false, nil
	}
	return u.install(question != "")
}

// save writes the body to the disk.
func (u *updates) save(ctx context.Context, body io.Reader) error {
	const op = "appliance.Receive"
	f, err := os.OpenFile(u.path(updateIncoming), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	defer func() { _ = f.Close() }()
	for {
		got, err := io.CopyN(f, body, updatePiece)
		u.change(func(j *admin.UpdateJob) { j.Received += got })
		switch {
		case ctx.Err() != nil:
			return edgewise.Errorf(op, edgewise.Canceled, "the update was canceled")
		case errors.Is(err, io.EOF):
			return u.whole(f)
		case err != nil:
			return err
		}
		if err := u.app.store.Room(updatePiece); err != nil {
			return err
		}
	}
}

// whole makes sure that the file is on the disk, and is what this box takes.
func (u *updates) whole(f *os.File) error {
	if err := f.Sync(); err != nil {
		return edgewise.Errorf("appliance.Receive", edgewise.Exhausted, "%w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return edgewise.Errorf("appliance.Receive", edgewise.Internal, "%w", err)
	}
	return u.how.Kind.CheckFile(f)
}

// check has the signature of an update checked, and returns what a person has to confirm, "" for nothing.
func (u *updates) check(ctx context.Context, signature string) (question string, err error) {
	if u.how.Kind == update.Package {
		return u.checkPackage(ctx, signature)
	}
	rauc, err := update.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = rauc.Close() }()
	b, err := rauc.Inspect(ctx, u.path(updateIncoming))
	if err != nil {
		return "", err
	}
	u.mu.Lock()
	compatible, refused := u.status.Compatible, slices.Contains(u.history.Refused, b.Version)
	u.mu.Unlock()
	u.change(func(j *admin.UpdateJob) { j.Version = b.Version })
	switch {
	case b.Compatible != compatible:
		return "", edgewise.Errorf("appliance.Receive", edgewise.Invalid, "the bundle is for %q: this box is %q", b.Compatible, compatible)
	case update.Compare(b.Version, u.how.Version) < 0:
		return older(b.Version, u.how.Version), nil
	case refused:
		return "Version " + b.Version + " was installed before and did not start on this box.", nil
	}
	return "", nil
}

func older(offered, runs string) string {
	return "Version " + offered + " is older than " + runs + ", which runs. What the newer one has stored may be lost."
}

// checkPackage hands a package to the helper, which keeps it when its signature is good.
func (u *updates) checkPackage(ctx context.Context, signature string) (question string, err error) {
	f, err := os.Open(u.path(updateIncoming))
	if err != nil {
		return "", edgewise.Errorf("appliance.Receive", edgewise.Internal, "%w", err)
	}
	defer func() { _ = f.Close() }()
	a, err := u.helper.Ask(ctx, helper.Request{Do: helper.DoStage, Signature: signature}, f, nil)
	if err != nil {
		return "", err
	}
	u.remove() // the helper has its own
	if a.State == nil || a.State.Staged == nil {
		return "", edgewise.Errorf("appliance.Receive", edgewise.Internal, "the helper does not say which version it has taken")
	}
	u.mu.Lock()
	u.kept = *a.State
	u.mu.Unlock()
	staged := a.State.Staged
	u.change(func(j *admin.UpdateJob) { j.Version = staged.Version })
	if staged.Older {
		return older(staged.Version, a.State.Installed), nil
	}
	return "", nil
}
