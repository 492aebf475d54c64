package updates

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/test/fakerauc"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

// onImage returns a configuration for a flashed machine whose disk has room.
func onImage(t *testing.T) Config {
	return Config{
		Packaging: update.Packaging{Kind: update.Image, Version: "1.0.0"}, Boot: "boot1", Dir: t.TempDir(), Version: "1.0.0",
		Room: func(int64) error { return nil }, Publish: func(string, any) {}, Logger: slog.New(slog.DiscardHandler),
	}
}

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

// TestARefusedUpdateIsOverBeforeTheNextBegins checks whether another update could begin, in the same file, while the
// file of a refused one is removed.
func TestARefusedUpdateIsOverBeforeTheNextBegins(t *testing.T) {
	c := onImage(t)
	u := New(c)
	free := make(chan bool, 1)
	u.config.Logger = slog.New(onWarning{slog.DiscardHandler, func(text string) {
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
	if err := u.begin(); err != nil {
		t.Fatal(err)
	}
	_, err := u.Receive(t.Context(), &edgewise.Principal{Kind: "open"},
		Upload{Size: 9, Body: strings.NewReader("no bundle")})
	if edgewise.KindOf(err) != edgewise.Invalid {
		t.Fatalf("got %v", err)
	}
	if <-free {
		t.Error("another update could have begun before the file of this one was removed")
	}
	if _, err := os.Stat(u.path(incomingFile)); !os.IsNotExist(err) {
		t.Errorf("its file is there: %v", err)
	}
}

// TestAnUpdateIsNotDiscardedUnderItsInstallation cancels an update that waits while a person has just confirmed it.
func TestAnUpdateIsNotDiscardedUnderItsInstallation(t *testing.T) {
	c := onImage(t)
	synctest.Test(t, func(t *testing.T) {
		u := New(c)
		defer u.stop()
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
		time.Sleep(2 * interruptInterval)
		set(admin.UpdateInstalling)
		if err := <-answer; edgewise.KindOf(err) != edgewise.Conflict {
			t.Errorf("discarded: %v", err)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.job.State != admin.UpdateInstalling {
			t.Errorf("it is %s", u.job.State)
		}
	})
}

// TestARestartAfterAnInstallationFromAStick requests a restart when the problem of the last refresh is over.
func TestARestartAfterAnInstallationFromAStick(t *testing.T) {
	dir, err := os.MkdirTemp("", "updates") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	machine := fakesystem.New("1.0.0")
	socket := filepath.Join(dir, "s")
	fakesystem.Key(t, dir)
	service, err := helper.New(helper.Config{
		Folder: filepath.Join(dir, "helper"), Keys: dir, Data: dir, Image: true, User: uint32(os.Getuid()),
		Downgrade: filepath.Join(dir, "older"), Run: machine.Run, Running: func() bool { return true },
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	fakesystem.Serve(t, socket, service.Serve)
	fakerauc.Bus(t)
	rauc := fakerauc.Start(t, "1.0.0")
	c := onImage(t)
	c.Helper = helper.Client{Path: socket}
	u := New(c)
	if err := u.begin(); err != nil {
		t.Fatal(err)
	}
	rauc.Busy(true)
	u.refresh(t.Context())
	err = u.Restart(t.Context())
	if edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "already processing") {
		t.Errorf("during the installation: %v", err)
	}
	rauc.Busy(false)
	if err := u.Restart(t.Context()); err != nil || !machine.Ran("systemd-run") {
		t.Errorf("after it: %v, ran %q", err, machine.Commands())
	}
}
