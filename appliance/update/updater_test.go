package update

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/fakerauc"
)

// patience bounds a test on a machine that is busy with others.
const patience = 2 * time.Minute

func open(t *testing.T) (*Updater, *fakerauc.RAUC, context.Context) {
	t.Helper()
	fakerauc.Bus(t)
	rauc := fakerauc.Start(t, "1.0.0")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	u, err := Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u, rauc, ctx
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "update.raucb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bundle(version string) fakerauc.Bundle {
	return fakerauc.Bundle{Compatible: "edgewise-x86-64", Version: version}
}

func want(t *testing.T, err error, kind edgewise.Kind, text string) {
	t.Helper()
	if edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%v), want %v with %q", err, edgewise.KindOf(err), kind, text)
	}
}

func TestAnUpdateIsInstalledWithProgress(t *testing.T) {
	u, rauc, ctx := open(t)
	path := file(t, bundle("1.1.0").Bytes())
	b, err := u.Inspect(ctx, path)
	if err != nil || b != (Bundle{"edgewise-x86-64", "1.1.0"}) {
		t.Fatalf("got %+v, %v", b, err)
	}
	var said []string
	last := -1
	err = u.Install(ctx, path, func(percent int, doing string) {
		if percent < last {
			t.Errorf("progress goes back from %d to %d", last, percent)
		}
		last = percent
		said = append(said, doing)
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 100 || !slices.Contains(said, "Copying image to rootfs.1") {
		t.Errorf("progress ended at %d and said %q", last, said)
	}
	s, err := u.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Booted != "A" || s.Primary != "B" || s.Operation != "idle" || s.LastError != "" ||
		s.Compatible != "edgewise-x86-64" {
		t.Errorf("status %+v", s)
	}
	if !slices.Contains(s.Slots, Slot{
		Name: "B", State: "inactive", Good: true, Version: "1.1.0",
		Installed: "2026-11-21T10:00:00Z", Activated: 1,
	}) || len(s.Slots) != 2 {
		t.Errorf("slots %+v", s.Slots)
	}
	if got := rauc.Installed(); !slices.Equal(got, []string{"1.1.0"}) {
		t.Errorf("installed %q", got)
	}
}

func TestBundlesThatAreRefused(t *testing.T) {
	foreign, otherKind, broken := bundle("1.1.0"), bundle("1.1.0"), bundle("1.1.0")
	foreign.Signer = "stranger"
	otherKind.Compatible = "toaster"
	broken.Fails = "Installation error: Failed updating slot rootfs.1: failed to write: Input/output error"
	tests := []struct {
		name    string
		content []byte
		text    string
		inspect bool // refused as soon as it is looked at
	}{
		{"a stranger's signature", foreign.Bytes(), "unable to get local issuer certificate", true},
		{"no bundle", []byte("a holiday picture"), "Invalid bundle format", true},
		{"cut off", bundle("1.1.0").Bytes()[:20], "Invalid bundle format", true},
		{"for another kind of box", otherKind.Bytes(), "Compatible mismatch: Expected 'edgewise-x86-64' but bundle " +
			"manifest has 'toaster'", false},
		{
			"older than what runs", bundle("0.9.0").Bytes(),
			"version 0.9.0 is older than 1.0.0, which runs: confirm a downgrade", false,
		},
		{"flipped bytes", broken.Bytes(), "Input/output error", false},
	}
	u, rauc, ctx := open(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := file(t, tt.content)
			_, err := u.Inspect(ctx, path)
			if tt.inspect {
				want(t, err, edgewise.Invalid, tt.text)
			} else if err != nil {
				t.Error(err)
			}
			want(t, u.Install(ctx, path, nil), edgewise.Invalid, tt.text)
			s, err := u.Status(ctx)
			if err != nil || s.Primary != "A" || !strings.Contains(s.LastError, tt.text) {
				t.Errorf("status %+v, %v", s, err)
			}
		})
	}
	if got := rauc.Installed(); len(got) > 0 {
		t.Errorf("installed %q", got)
	}
}

func TestAnOlderVersionIsTakenWhenConfirmed(t *testing.T) {
	u, rauc, ctx := open(t)
	rauc.Downgrades(func() bool { return true })
	if err := u.Install(ctx, file(t, bundle("0.9.0").Bytes()), nil); err != nil {
		t.Fatal(err)
	}
	if got := rauc.Installed(); !slices.Equal(got, []string{"0.9.0"}) {
		t.Errorf("installed %q", got)
	}
}

func TestOneInstallationAtATime(t *testing.T) {
	u, rauc, ctx := open(t)
	slow := bundle("1.1.0")
	slow.Hangs = true
	copying := make(chan struct{})
	ended := make(chan error, 1)
	var once atomic.Bool
	go func() {
		ended <- u.Install(ctx, file(t, slow.Bytes()), func(percent int, _ string) {
			if percent == 60 && !once.Swap(true) {
				close(copying)
			}
		})
	}()
	<-copying
	want(t, u.Install(ctx, file(t, bundle("1.2.0").Bytes()), nil), edgewise.Busy, "being installed already")
	if s, err := u.Status(ctx); err != nil || s.Operation != "installing" {
		t.Errorf("status %+v, %v", s, err)
	}
	waitFor(t, func() bool { rauc.Continue(); return len(ended) == 1 })
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

func TestAServiceThatEndsInTheMiddle(t *testing.T) {
	u, rauc, ctx := open(t)
	slow := bundle("1.1.0")
	slow.Hangs = true
	err := u.Install(ctx, file(t, slow.Bytes()), func(percent int, _ string) {
		if percent == 60 {
			rauc.Stop()
		}
	})
	want(t, err, edgewise.Unavailable, "RAUC ended while update.raucb was being installed")
}

func TestWaitingIsGivenUp(t *testing.T) {
	u, rauc, ctx := open(t)
	slow := bundle("1.1.0")
	slow.Hangs = true
	ctx, cancel := context.WithCancel(ctx)
	err := u.Install(ctx, file(t, slow.Bytes()), func(percent int, _ string) {
		if percent == 60 {
			cancel()
		}
	})
	want(t, err, edgewise.Canceled, "still being installed")
	waitFor(t, func() bool { rauc.Continue(); return len(rauc.Installed()) == 1 })
}

func TestSlotsAreMarked(t *testing.T) {
	u, rauc, ctx := open(t)
	if err := u.Install(ctx, file(t, bundle("1.1.0").Bytes()), nil); err != nil {
		t.Fatal(err)
	}
	rauc.Boot("B", false)
	if s, err := u.Status(ctx); err != nil || s.Booted != "B" || s.Slots[1].Good {
		t.Errorf("before its check: %+v, %v", s, err)
	}
	if err := u.Mark(ctx, Good, Booted); err != nil || !rauc.Good("B") {
		t.Errorf("good: %v", err)
	}
	if err := u.Mark(ctx, Bad, Other); err != nil || rauc.Good("A") {
		t.Errorf("bad: %v", err)
	}
	if err := u.Mark(ctx, Active, Other); err != nil || !rauc.Good("A") {
		t.Errorf("active: %v", err)
	}
	if s, err := u.Status(ctx); err != nil || s.Primary != "A" {
		t.Errorf("after active: %+v, %v", s, err)
	}
	want(t, u.Mark(ctx, Good, "rootfs.7"), edgewise.Unavailable, "rootfs.7")
}

func TestWhereThereIsNoRAUC(t *testing.T) {
	fakerauc.Bus(t)
	_, err := Open(t.Context())
	want(t, err, edgewise.Unsupported, "RAUC does not answer")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
	_, err = Open(t.Context())
	want(t, err, edgewise.Unsupported, "the system bus does not answer")
}
