package updates

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
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// pieceBytes is how much of an update is read before the room on the disk is checked and listeners are told.
const pieceBytes = 4 << 20

// Upload is an update as a client sends it.
type Upload struct {
	Size      int64 // bytes announced; -1: they were not
	Body      io.Reader
	Signature string // of a package; empty: none was sent
	Confirmed bool   // install also what asks for a confirmation
}

// Receive stores an update of p and checks it. An update that needs no confirmation is then installed, which continues
// after Receive has returned. Errors: Unsupported, Busy, TooLarge, Exhausted, Invalid, Denied, and those of the body.
func (u *Updates) Receive(ctx context.Context, p *edgewise.Principal, n Upload) (admin.SystemUpdate, error) {
	if err := u.available(ctx); err != nil {
		return u.Update(), err
	}
	select {
	case <-u.turn:
	default:
		return u.Update(), edgewise.Errorf("updates.Receive", edgewise.Busy,
			"another update is on its way: wait for it, or cancel it")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u.mu.Lock()
	u.job = &admin.UpdateJob{State: admin.UpdateReceiving, Size: n.Size, Owner: p.Actor(), Started: time.Now().UTC()}
	u.cancel = cancel
	u.mu.Unlock()
	u.publish()
	continues, err := u.accept(ctx, n)
	if err != nil {
		u.ended(err)
	}
	if !continues {
		u.turn <- struct{}{} // only now: the next update is stored in the same file
	}
	return u.Update(), err
}

// available returns nil when an update can be received. A problem of the last refresh is checked again, since it may be
// over, such as an installation from a USB stick, during which RAUC does not answer. Errors: Unsupported, Unavailable.
func (u *Updates) available(ctx context.Context) error {
	if u.config.Packaging.Kind != update.Image && u.config.Packaging.Kind != update.Package {
		return edgewise.Errorf("updates.Receive", edgewise.Unsupported, "this box is not updated by its page; it takes %s",
			u.config.Packaging.Kind.Wants())
	}
	if u.unavailable() != nil {
		u.refresh(ctx)
	}
	return u.unavailable()
}

// unavailable returns why neither RAUC nor the helper answered at the last refresh, nil when one of them did.
func (u *Updates) unavailable() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.problem
}

// change changes the job and tells listeners.
func (u *Updates) change(edit func(j *admin.UpdateJob)) {
	u.mu.Lock()
	if u.job != nil {
		edit(u.job)
	}
	u.mu.Unlock()
	u.publish()
}

// ended notes why a job has ended early, and removes its file.
func (u *Updates) ended(err error) {
	u.change(func(j *admin.UpdateJob) {
		j.State, j.Error, j.Ended, j.Doing = admin.UpdateFailed, apistatus.Message(err), time.Now().UTC(), ""
		if edgewise.KindOf(err) == edgewise.Canceled {
			j.State, j.Error = admin.UpdateCanceled, ""
		}
	})
	u.remove()
	u.config.Logger.Warn("an update was not installed", "error", err)
}

func (u *Updates) remove() {
	if err := os.Remove(u.path(incomingFile)); err != nil && !os.IsNotExist(err) {
		u.config.Logger.Error("removing an update", "error", err)
	}
}

// accept stores and checks an update. continues tells that it is being installed in the background.
func (u *Updates) accept(ctx context.Context, n Upload) (continues bool, err error) {
	if err := u.config.Room(max(n.Size, 0)); err != nil {
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
func (u *Updates) save(ctx context.Context, body io.Reader) error {
	const op = "updates.Receive"
	f, err := os.OpenFile(u.path(incomingFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	defer func() { _ = f.Close() }()
	for {
		got, err := io.CopyN(f, body, pieceBytes)
		u.change(func(j *admin.UpdateJob) { j.Received += got })
		switch {
		case ctx.Err() != nil:
			return edgewise.Errorf(op, edgewise.Canceled, "the update was canceled")
		case errors.Is(err, io.EOF):
			return u.finish(f)
		case err != nil:
			return err
		}
		if err := u.config.Room(pieceBytes); err != nil {
			return err
		}
	}
}

// finish makes sure that the file is on the disk, and is an update of the kind that this box installs.
func (u *Updates) finish(f *os.File) error {
	if err := f.Sync(); err != nil {
		return edgewise.Errorf("updates.Receive", edgewise.Exhausted, "%w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return edgewise.Errorf("updates.Receive", edgewise.Internal, "%w", err)
	}
	return u.config.Packaging.Kind.CheckFile(f)
}

// check verifies the signature of an update, and returns what a person has to confirm, "" for nothing.
func (u *Updates) check(ctx context.Context, signature string) (question string, err error) {
	if u.config.Packaging.Kind == update.Package {
		return u.checkPackage(ctx, signature)
	}
	rauc, err := update.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = rauc.Close() }()
	b, err := rauc.Inspect(ctx, u.path(incomingFile))
	if err != nil {
		return "", err
	}
	u.mu.Lock()
	compatible, refused := u.status.Compatible, slices.Contains(u.history.Refused, b.Version)
	u.mu.Unlock()
	u.change(func(j *admin.UpdateJob) { j.Version = b.Version })
	switch {
	case b.Compatible != compatible:
		return "", edgewise.Errorf("updates.Receive", edgewise.Invalid, "the bundle is for %q: this box is %q", b.Compatible,
			compatible)
	case update.Compare(b.Version, u.config.Packaging.Version) < 0:
		return older(b.Version, u.config.Packaging.Version), nil
	case refused:
		return "Version " + b.Version + " was installed before and did not start on this box.", nil
	}
	return "", nil
}

func older(offered, runs string) string {
	return "Version " + offered + " is older than " + runs + ", which runs. What the newer one has stored may be lost."
}

// checkPackage passes a package to the helper, which stores it when its signature is good.
func (u *Updates) checkPackage(ctx context.Context, signature string) (question string, err error) {
	f, err := os.Open(u.path(incomingFile))
	if err != nil {
		return "", edgewise.Errorf("updates.Receive", edgewise.Internal, "%w", err)
	}
	defer func() { _ = f.Close() }()
	a, err := u.config.Helper.Ask(ctx, helper.Request{Do: helper.DoStage, Signature: signature}, f, nil)
	if err != nil {
		return "", err
	}
	u.remove() // the helper has a copy
	if a.State == nil || a.State.Staged == nil {
		return "", edgewise.Errorf("updates.Receive", edgewise.Internal,
			"the helper does not say which version it has stored")
	}
	u.mu.Lock()
	u.helperState = *a.State
	u.mu.Unlock()
	staged := a.State.Staged
	u.change(func(j *admin.UpdateJob) { j.Version = staged.Version })
	if staged.Older {
		return older(staged.Version, a.State.Installed), nil
	}
	return "", nil
}
