package appliance

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// onWarning is a handler of log lines that calls a function for each warning.
type onWarning struct {
	slog.Handler
	call func(text string)
}

func (o onWarning) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		o.call(r.Message)
	}
	return o.Handler.Handle(ctx, r)
}

func (o onWarning) WithAttrs([]slog.Attr) slog.Handler           { return o }
func (o onWarning) WithGroup(string) slog.Handler                { return o }
func (o onWarning) Enabled(_ context.Context, _ slog.Level) bool { return true }

// TestARefusedUpdateIsOverBeforeTheNextBegins looks whether another update could begin, in the same file, while the file of one that was
// refused is removed.
func TestARefusedUpdateIsOverBeforeTheNextBegins(t *testing.T) {
	m := newMachine(t, flashed())
	free := make(chan bool, 1)
	h := runBoxWith(t, func(c *config.Config) { c.DataDir = m.data }, func(a *App) {
		u := a.updates
		u.how, u.helper, u.boot = m.how, helper.Client{Path: m.socket}, m.boot
		u.logger = slog.New(onWarning{slog.DiscardHandler, func(text string) {
			if text != "an update was not installed" {
				return
			}
			select {
			case <-u.turn:
				u.turn <- struct{}{}
				free <- true
			default:
				free <- false
			}
		}})
	})
	anna := h.claim()
	await(t, anna, "it knows its system", func(s admin.System) bool { return s.Update.Possible })
	if status, text := anna.send("", "", []byte("no bundle")); status != 400 {
		t.Fatalf("%d %s", status, text)
	}
	if <-free {
		t.Error("another update could have begun before the file of this one was removed")
	}
}

// TestAnUpdateIsNotGivenUpUnderItsInstallation gives up an update that waits while somebody has just confirmed it.
func TestAnUpdateIsNotGivenUpUnderItsInstallation(t *testing.T) {
	h := runBoxWith(t, nil, func(*App) {})
	u := h.app.updates
	set := func(state string) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.job = &admin.UpdateJob{State: state}
	}
	set(admin.UpdateWaiting)
	<-u.turn // the confirmation has it
	answer := make(chan error, 1)
	go func() {
		_, err := u.Cancel(context.Background())
		answer <- err
	}()
	<-time.After(2 * interruptAgain)
	set(admin.UpdateInstalling)
	if err := <-answer; edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("given up: %v", err)
	}
	u.mu.Lock()
	if u.job.State != admin.UpdateInstalling {
		t.Errorf("it is %s", u.job.State)
	}
	u.job = nil
	u.mu.Unlock()
	u.turn <- struct{}{}
}
