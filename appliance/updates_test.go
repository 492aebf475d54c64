package appliance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/appliance/updates"
	"github.com/edgewise-ai/edgewise/test/fakerauc"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

// updatePatience bounds what these tests wait for.
const updatePatience = 2 * time.Minute

// machineOf is a machine that a box can be updated on: RAUC, and the helper with what it would change.
type machineOf struct {
	rauc   *fakerauc.RAUC
	system *fakesystem.System
	sign   func([]byte) string
	socket string
	data   string
	boot   string
	how    update.Packaging
}

func newMachine(t *testing.T, how update.Packaging) *machineOf {
	t.Helper()
	dir, err := os.MkdirTemp("", "box")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &machineOf{
		system: fakesystem.New(how.Version), socket: filepath.Join(dir, "s"), data: filepath.Join(dir, "data"),
		boot: "boot1", how: how,
	}
	c := helper.Config{
		Folder: filepath.Join(dir,
			"helper"), Keys: dir, Data: m.data, Image: how.Kind == update.Image, User: uint32(os.Getuid()), Downgrade: filepath.Join(dir, "older"),
		Health: time.Second, Steady: 5 * time.Millisecond, Run: m.system.Run, Running: func() bool {
			return true
		}, Log: slog.New(slog.DiscardHandler),
	}
	c.System = driver.System{Architecture: "amd64", Level: fakesystem.Level, Version: how.Version, Slot: "A"}
	c.Mounts = filepath.Join(dir, "mounts")
	m.sign = fakesystem.Key(t, dir)
	if how.Kind == update.Image {
		fakerauc.Bus(t)
		m.rauc = fakerauc.Start(t, how.Version)
		m.rauc.Downgrades(func() bool { _, err := os.Stat(c.Downgrade); return err == nil })
	}
	s, err := helper.New(c)
	if err != nil {
		t.Fatal(err)
	}
	fakesystem.Serve(t, m.socket, s.Serve)
	return m
}

// start starts a box on the machine; starting another after it is a restart. use runs while it does.
func (m *machineOf) start(t *testing.T, use func(t *testing.T, h *running, anna *visitor)) {
	t.Helper()
	t.Run("box", func(t *testing.T) {
		h := runBoxWith(t, func(c *config.Config) { c.DataDir = m.data }, func(a *App) {
			a.system.Updates = a.newUpdates(m.how, helper.Client{Path: m.socket}, m.boot)
			a.system.drivers = a.newDrivers(m.how, helper.Client{Path: m.socket}, a.system.Updates.Next)
		})
		anna := h.visitor()
		if h.welcome.ClaimCode != "" {
			anna = h.claim()
		} else {
			var s admin.Session
			if status, text := anna.ask("POST", "/api/v1/session", admin.Login{User: "anna", Password: annasPassword},
				&s); status != 200 {
				t.Fatalf("login: %d %s", status, text)
			}
			anna.header.Set("X-CSRF-Token", s.CSRF)
		}
		await(t, anna, "it knows its system", func(s admin.System) bool { return s.Update.Possible })
		use(t, h, anna)
	})
}

const annasPassword = anna

// await asks for the system until it is as wanted.
func await(t *testing.T, v *visitor, what string, is func(admin.System) bool) admin.System {
	t.Helper()
	var s admin.System
	for end := time.Now().Add(updatePatience); ; time.Sleep(10 * time.Millisecond) {
		if status, text := v.ask("GET", "/api/v1/system", nil, &s); status != 200 {
			t.Fatalf("system: %d %s", status, text)
		}
		if is(s) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come: %+v, job %+v", what, s.Update, s.Update.Job)
		}
		s = admin.System{}
	}
}

// send sends an update.
func (v *visitor) send(query, signature string, content []byte) (int, string) {
	t := v.running.t
	t.Helper()
	req, err := http.NewRequest("POST", v.running.base+"/api/v1/system/update"+query, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = v.header.Clone()
	req.Header.Set("Content-Type", "application/octet-stream")
	if signature != "" {
		req.Header.Set(administration.SignatureHeader, base64.StdEncoding.EncodeToString([]byte(signature)))
	}
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func flashed() update.Packaging { return update.Packaging{Kind: update.Image, Version: "1.0.0"} }

func aBundle(version string) fakerauc.Bundle {
	return fakerauc.Bundle{Compatible: "edgewise-x86-64", Version: version}
}

func TestABoxOfSlotsIsUpdated(t *testing.T) {
	m := newMachine(t, flashed())
	m.start(t, func(t *testing.T, h *running, anna *visitor) {
		if status, text := anna.send("", "", aBundle("1.1.0").Bytes()); status != 202 {
			t.Fatalf("send: %d %s", status, text)
		}
		s := await(t, anna, "installed", func(s admin.System) bool { return s.Update.Job.State == admin.UpdateReady })
		if u := s.Update; !u.Restart || u.Booted != "A" || u.Next != "B" || u.Job.Version != "1.1.0" ||
			u.Job.Percent != 100 || len(u.Slots) != 2 || s.Version != Version {
			t.Errorf("ready: %+v", u)
		}
		if m.system.Ran("systemd-run") {
			t.Fatal("it restarts by itself")
		}
		if entries, err := os.ReadDir(filepath.Join(m.data, updates.Folder)); err != nil || len(entries) != 1 {
			t.Errorf("the update is kept: %v, %v", entries, err)
		}
		if status, text := anna.ask("POST", "/api/v1/system/restart", nil, nil); status != 202 ||
			!m.system.Ran("systemd-run --quiet --collect --on-active=1s systemctl reboot") {
			t.Errorf("restart: %d %s, ran %q", status, text, m.system.Commands())
		}
		var page admin.AuditPage
		anna.ask("GET", "/api/v1/audit?action=system.update", nil, &page)
		if len(page.Entries) != 1 || page.Entries[0].Target != "1.1.0" || page.Entries[0].Actor != "person:anna" {
			t.Errorf("audit: %+v", page.Entries)
		}
	})
	m.rauc.Boot("B", true)
	m.boot, m.how.Version = "boot2", "1.1.0"
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		s := await(t, anna, "the result", func(s admin.System) bool { return s.Update.Last != nil })
		if u := s.Update; u.Last.Error != "" || u.Last.Version != "1.1.0" || u.Last.From != "1.0.0" || u.Restart ||
			u.Booted != "B" || u.Previous != "1.0.0" || s.FailedBoot != nil {
			t.Errorf("after the restart: %+v, last %+v", u, u.Last)
		}
		if status, text := anna.ask("POST", "/api/v1/system/rollback", nil, nil); status != 202 {
			t.Errorf("rollback: %d %s", status, text)
		}
		await(t, anna, "rollback", func(s admin.System) bool { return s.Update.Restart && s.Update.Next == "A" })
	})
}

func TestAFailedStartIsTold(t *testing.T) {
	m := newMachine(t, flashed())
	m.system.Journal(`[{"index":-2,"boot_id":"boot1"},{"index":-1,"boot_id":"bad"},{"index":0,"boot_id":"boot3"}]`,
		map[string]string{"bad": "edgewise: exec format error"})
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		if status, text := anna.send("", "", aBundle("1.1.0").Bytes()); status != 202 {
			t.Fatalf("send: %d %s", status, text)
		}
		await(t, anna, "installed", func(s admin.System) bool { return s.Update.Restart })
	})
	m.boot = "boot3"
	m.rauc.Fail("A")
	release := m.system.HoldJournal()
	m.start(t, func(t *testing.T, h *running, anna *visitor) {
		s := await(t, anna, "the result", func(s admin.System) bool { return s.Update.Last != nil })
		if s.FailedBoot != nil {
			t.Errorf("told before its log is there: %+v", s.FailedBoot)
		}
		waitUntil(t, func() bool { return !m.rauc.Good("B") }) // that does not wait for the log
		if status, text := anna.ask("DELETE", "/api/v1/system/failed-boot", nil, nil); status != 404 {
			t.Errorf("acknowledge what was not told: %d %s", status, text)
		}
		release()
		s = await(t, anna, "the news", func(s admin.System) bool { return s.FailedBoot != nil })
		if f := s.FailedBoot; f.Version != "1.1.0" || f.Slot != "B" || f.Runs != "A" || f.LogBytes == 0 ||
			s.Update.Last.Error == "" || s.Warnings[0].Code != "failed_boot" {
			t.Errorf("told: %+v, last %+v, %+v", f, s.Update.Last, s.Warnings)
		}
		if status, text := anna.ask("GET", "/api/v1/system/failed-boot/log", nil, nil); status != 200 ||
			!strings.Contains(text, "exec format error") {
			t.Errorf("log: %d %s", status, text)
		}
		if status, text := anna.send("", "", aBundle("1.1.0").Bytes()); status != 202 ||
			!strings.Contains(text, "did not start on this box") || !strings.Contains(text, `"state":"waiting"`) {
			t.Errorf("the same again: %d %s", status, text)
		}
		if status, text := anna.ask("DELETE", "/api/v1/system/failed-boot", nil, nil); status != 204 {
			t.Errorf("acknowledge: %d %s", status, text)
		}
		if status, _ := anna.ask("DELETE", "/api/v1/system/failed-boot", nil, nil); status != 404 {
			t.Errorf("acknowledge again: %d", status)
		}
	})
	m.boot = "boot4"
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		if s := await(t, anna, "", func(s admin.System) bool { return s.Update.Last != nil }); s.FailedBoot != nil {
			t.Errorf("it is told again: %+v", s.FailedBoot)
		}
	})
}

// TestAnUpdateFromAStickIsTold installs past the box and restarts before it has looked: the slot that ran before stays
// good, and what became of the update is told.
func TestAnUpdateFromAStickIsTold(t *testing.T) {
	m := newMachine(t, flashed())
	m.start(t, func(t *testing.T, h *running, _ *visitor) { waitForRan(t, m, "A") })
	m.rauc.Stick("1.1.0")
	m.rauc.Boot("B", true)
	m.boot, m.how.Version = "boot2", "1.1.0"
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		s := await(t, anna, "the result", func(s admin.System) bool { return s.Update.Last != nil })
		if l := s.Update.Last; l.Version != "1.1.0" || l.From != "1.0.0" || l.Error != "" || s.FailedBoot != nil ||
			!m.rauc.Good("A") {
			t.Errorf("told: %+v, %+v, slot A good %v", l, s.FailedBoot, m.rauc.Good("A"))
		}
	})
	m.system.Journal(`[{"index":-1,"boot_id":"bad"},{"index":0,"boot_id":"boot5"}]`,
		map[string]string{"bad": "edgewise: exec format error"})
	m.rauc.Stick("1.2.0")
	m.rauc.Fail("B")
	m.boot = "boot5"
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		s := await(t, anna, "the news", func(s admin.System) bool { return s.FailedBoot != nil })
		if f := s.FailedBoot; f.Version != "1.2.0" || f.Slot != "A" || f.Runs != "B" || f.LogBytes == 0 ||
			s.Update.Last.Version != "1.2.0" || s.Update.Last.Error == "" {
			t.Errorf("told: %+v, last %+v", f, s.Update.Last)
		}
	})
}

// waitForRan waits until the box remembers that a slot has passed its check.
func waitForRan(t *testing.T, m *machineOf, slot string) {
	t.Helper()
	waitUntil(t, func() bool {
		h, err := update.ReadHistory(filepath.Join(m.data, updates.Folder, updates.HistoryFile))
		return err == nil && h.Ran != nil && h.Ran.Slot == slot
	})
}

func waitUntil(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(updatePatience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

func TestUpdatesThatAreRefused(t *testing.T) {
	foreign, otherKind, broken := aBundle("1.1.0"), aBundle("1.1.0"), aBundle("1.1.0")
	foreign.Signer, otherKind.Compatible, broken.Fails = "stranger", "toaster", "Input/output error"
	m := newMachine(t, flashed())
	m.start(t, func(t *testing.T, h *running, anna *visitor) {
		for _, tt := range []struct {
			name    string
			content []byte
			status  int
			text    string
		}{
			{"a stranger's signature", foreign.Bytes(), 400, "unable to get local issuer certificate"},
			{"another kind of box", otherKind.Bytes(), 400, `the bundle is for \"toaster\": this box is \"edgewise-x86-64\"`},
			{
				"a package", fakesystem.Edgewise("1.1.0").Bytes(), 400,
				"the file is a Debian package: want edgewise-VERSION.raucb",
			},
			{"a picture", []byte("a holiday picture"), 400, "the file is no update of Edgewise"},
			{"nothing", nil, 400, "the file is no update of Edgewise"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				if status, text := anna.send("?confirmed=true", "", tt.content); status != tt.status ||
					!strings.Contains(text, tt.text) {
					t.Errorf("%d %s", status, text)
				}
				if u := h.app.system.Update(); u.Job.State != admin.UpdateFailed || u.Job.Error == "" || u.Restart {
					t.Errorf("job %+v", u.Job)
				}
			})
		}
		if status, text := anna.send("", "", broken.Bytes()); status != 202 {
			t.Errorf("flipped bytes are found while it is written: %d %s", status, text)
		}
		await(t, anna, "flipped bytes", func(s admin.System) bool {
			return s.Update.Job.State == admin.UpdateFailed && strings.Contains(s.Update.Job.Error, "Input/output error") &&
				!s.Update.Restart
		})
		operator := h.login(anna, "operator")
		if status, _ := operator.send("", "", aBundle("1.1.0").Bytes()); status != 403 {
			t.Errorf("an operator updates the system: %d", status)
		}
		for _, path := range []string{"restart", "factory-reset", "rollback"} {
			if status, _ := operator.ask("POST", "/api/v1/system/"+path, map[string]string{"confirm": "erase"},
				nil); status != 403 {
				t.Errorf("an operator does %s: %d", path, status)
			}
		}
	})
	if got := m.rauc.Installed(); len(got) > 0 {
		t.Errorf("installed %q", got)
	}
}

func TestWhatIsOlderWaitsForAConfirmation(t *testing.T) {
	m := newMachine(t, flashed())
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		if status, text := anna.send("", "", aBundle("0.9.0").Bytes()); status != 202 ||
			!strings.Contains(text, "Version 0.9.0 is older than 1.0.0") {
			t.Fatalf("%d %s", status, text)
		}
		if status, text := anna.ask("POST", "/api/v1/system/update/install", admin.UpdateInstall{}, nil); status != 409 {
			t.Errorf("without a confirmation: %d %s", status, text)
		}
		if status, text := anna.ask("DELETE", "/api/v1/system/update", nil, nil); status != 200 ||
			!strings.Contains(text, `"state":"canceled"`) {
			t.Errorf("given up: %d %s", status, text)
		}
		if status, _ := anna.ask("POST", "/api/v1/system/update/install", admin.UpdateInstall{Confirmed: true},
			nil); status != 409 {
			t.Errorf("what was given up is installed: %d", status)
		}
		anna.send("", "", aBundle("0.9.0").Bytes())
		if status, text := anna.ask("POST", "/api/v1/system/update/install", admin.UpdateInstall{Confirmed: true},
			nil); status != 202 {
			t.Errorf("confirmed: %d %s", status, text)
		}
		await(t, anna, "installed", func(s admin.System) bool {
			return s.Update.Restart && s.Update.Next == "B" && s.Update.Job.State == "ready" // the slot is told first
		})
		if status, text := anna.ask("DELETE", "/api/v1/system/update", nil, nil); status != 200 {
			t.Errorf("give up what is ready: %d %s", status, text)
		}
		await(t, anna, "given up", func(s admin.System) bool { return !s.Update.Restart && s.Update.Next == "A" })
	})
}

func TestAnUpdateThatIsWrittenIsNotStoppedAndNotDoubled(t *testing.T) {
	m := newMachine(t, flashed())
	m.start(t, func(t *testing.T, h *running, anna *visitor) {
		slow := aBundle("1.1.0")
		slow.Hangs = true
		told := eventsOf(t, h, anna)
		if status, text := anna.send("", "", slow.Bytes()); status != 202 {
			t.Fatalf("%d %s", status, text)
		}
		await(t, anna, "60 %", func(s admin.System) bool {
			return s.Update.Job.Percent == 60 && s.Update.Job.Doing == "Copying image to rootfs.1"
		})
		if status, text := anna.ask("DELETE", "/api/v1/system/update", nil, nil); status != 409 ||
			!strings.Contains(text, "cannot be stopped") {
			t.Errorf("cancel: %d %s", status, text)
		}
		if status, text := anna.send("", "", aBundle("1.2.0").Bytes()); status != 429 && status != 503 {
			t.Errorf("a second one: %d %s", status, text)
		}
		waitUntil(t, func() bool { m.rauc.Continue(); return len(m.rauc.Installed()) == 1 })
		await(t, anna, "ready", func(s admin.System) bool { return s.Update.Job.State == admin.UpdateReady })
		states := map[string]bool{}
		for !states[admin.UpdateReady] {
			select {
			case u := <-told:
				if u.Job != nil {
					states[u.Job.State] = true
				}
			case <-time.After(updatePatience):
				t.Fatalf("told of %v only", states)
			}
		}
		if !states[admin.UpdateReceiving] || !states[admin.UpdateInstalling] {
			t.Errorf("told of %v", states)
		}
	})
}

// eventsOf reads the events of updates.
func eventsOf(t *testing.T, h *running, v *visitor) <-chan admin.SystemUpdate {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, "GET", h.base+"/api/v1/events?topics=update", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = v.header.Clone()
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan admin.SystemUpdate, 1000)
	go func() {
		defer func() { _ = res.Body.Close() }()
		text := &bytes.Buffer{}
		buffer := make([]byte, 4096)
		for {
			n, err := res.Body.Read(buffer)
			text.Write(buffer[:n])
			for {
				event, rest, whole := strings.Cut(text.String(), "\n\n")
				if !whole {
					break
				}
				text = bytes.NewBufferString(rest)
				if _, data, ok := strings.Cut(event, "event: update\ndata: "); ok {
					var u admin.SystemUpdate
					if json.Unmarshal([]byte(data), &u) == nil {
						told <- u
					}
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return told
}

func TestAPackageIsUpdatedAndRolledBack(t *testing.T) {
	m := newMachine(t, update.Packaging{Kind: update.Package, Version: "1.0.0"})
	good, dies := fakesystem.Edgewise("1.1.0").Bytes(), fakesystem.Edgewise("1.2.0")
	dies.Dies = true
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		if status, text := anna.send("", "", good); status != 403 || !strings.Contains(text, ".minisig") {
			t.Errorf("without a signature: %d %s", status, text)
		}
		if status, text := anna.send("", m.sign(dies.Bytes()), good); status != 403 ||
			!strings.Contains(text, "changed or cut off") {
			t.Errorf("with another's: %d %s", status, text)
		}
		if status, text := anna.send("", m.sign(good), good); status != 202 || !strings.Contains(text, `"state":"ready"`) ||
			m.system.Installed() != "1.0.0" {
			t.Fatalf("%d %s, installed %s", status, text, m.system.Installed())
		}
		if status, text := anna.ask("POST", "/api/v1/system/restart", nil, nil); status != 202 {
			t.Fatalf("restart: %d %s", status, text)
		}
		await(t, anna, "installed", func(s admin.System) bool {
			return m.system.Installed() == "1.1.0" && s.Update.Last != nil && s.Update.Last.Error == "" &&
				s.Update.Previous == "1.0.0"
		})
	})
	m.how.Version = "1.1.0"
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		if status, text := anna.send("", m.sign(dies.Bytes()), dies.Bytes()); status != 202 {
			t.Fatalf("%d %s", status, text)
		}
		if status, text := anna.ask("POST", "/api/v1/system/restart", nil, nil); status != 202 {
			t.Fatalf("restart: %d %s", status, text)
		}
		await(t, anna, "put back", func(s admin.System) bool {
			return m.system.Installed() == "1.1.0" && s.Update.Last.Version == "1.2.0" &&
				strings.Contains(s.Update.Last.Error, "the version before it is back")
		})
		if status, text := anna.ask("POST", "/api/v1/system/rollback", nil, nil); status != 202 {
			t.Fatalf("rollback: %d %s", status, text)
		}
		await(t, anna, "rolled back", func(s admin.System) bool {
			return m.system.Installed() == "1.0.0" && s.Update.Last.Action == update.ActionRollback
		})
	})
}

func TestTheBoxIsErasedOnlyWithTheWord(t *testing.T) {
	m := newMachine(t, flashed())
	m.start(t, func(t *testing.T, _ *running, anna *visitor) {
		if status, text := anna.ask("POST", "/api/v1/system/factory-reset", admin.FactoryReset{Confirm: "yes"},
			nil); status != 400 || !strings.Contains(text, `"field":"confirm"`) || m.system.Ran("grub-editenv") {
			t.Errorf("another word: %d %s", status, text)
		}
		if status, text := anna.ask("POST", "/api/v1/system/factory-reset", admin.FactoryReset{Confirm: admin.ResetWord},
			nil); status != 202 || !m.system.Ran("grub-editenv /efi/EFI/debian/grubenv set FACTORY=1") {
			t.Errorf("the word: %d %s, ran %q", status, text, m.system.Commands())
		}
	})
}

func TestAProgramInAFolderIsNotUpdated(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	var s admin.System
	if anna.ask("GET", "/api/v1/system", nil, &s); s.Update.Kind != "folder" || s.Update.Possible ||
		!strings.Contains(s.Update.Takes, "replace its folder") {
		t.Errorf("got %+v", s.Update)
	}
	if status, text := anna.send("", "", aBundle("9").Bytes()); status != 501 && status != 400 ||
		!strings.Contains(text, "replace its folder") {
		t.Errorf("send: %d %s", status, text)
	}
	if status, text := anna.ask("POST", "/api/v1/system/factory-reset", admin.FactoryReset{Confirm: admin.ResetWord},
		nil); status == 202 || !strings.Contains(text, "remove its data folder") {
		t.Errorf("reset: %d %s", status, text)
	}
	if status, text := anna.ask("DELETE", "/api/v1/system/safe-start", nil, nil); status != 409 {
		t.Errorf("no safe start: %d %s", status, text)
	}
}

func TestAnUpdateIsBounded(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	req := "POST /api/v1/system/update HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2147483649\r\nContent-Type: " +
		"application/octet-stream\r\nCookie: " + anna.header.Get("Cookie") + "\r\nX-CSRF-Token: " +
		anna.header.Get("X-CSRF-Token") + "\r\n\r\n"
	conn, reader := h.raw(req)
	defer func() { _ = conn.Close() }()
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusRequestEntityTooLarge ||
		!strings.Contains(string(text), "an update of the system") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}
