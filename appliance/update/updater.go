// Package update drives RAUC, which writes signed updates of the system into the slot that does not run, over D-Bus. It
// decides nothing about signatures or slots: RAUC does. Only an image has RAUC; elsewhere Open says so.
package update

import (
	"context"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/godbus/dbus/v5"
)

const (
	service   = "de.pengutronix.rauc"
	installer = service + ".Installer"
	// openTimeout bounds how long RAUC may take to start: D-Bus starts it when it is asked for.
	openTimeout = 30 * time.Second
	// lookTime is how often an installation is looked at between its signals.
	lookTime = 5 * time.Second

	idle = "idle" // RAUC's word for doing nothing
)

// Updater speaks to RAUC. It is safe for concurrent use; RAUC itself installs one update at a time.
type Updater struct {
	conn   *dbus.Conn
	object dbus.BusObject
}

// Slot is one of the two places of a system.
type Slot struct {
	Name    string // as the boot menu calls it: A or B
	State   string // booted or inactive
	Good    bool   // RAUC lets it be booted
	Version string // of the update that was installed into it; empty for the one that was flashed

	Installed string // when that was, RFC 3339; empty for the one that was flashed
	Activated uint32 // how often it was made the one that the next start takes
}

// Status is what RAUC says of the box.
type Status struct {
	Compatible string // the kind of box: a bundle must be made for it
	Booted     string // name of the slot that runs
	Primary    string // name of the slot that the next start takes; empty when none can be booted
	Operation  string // idle or installing
	LastError  string // of the last installation; empty when it went well
	Slots      []Slot
}

// Next is the version of the slot that the next start takes, where that is not the one that runs; otherwise empty.
func (s Status) Next() string {
	for _, slot := range s.Slots {
		if slot.Name == s.Primary && slot.Name != s.Booted {
			return slot.Version
		}
	}
	return ""
}

// Bundle is what a bundle with a valid signature says of itself.
type Bundle struct {
	Compatible, Version string
}

// Open connects to RAUC. Errors: Unsupported where there is no RAUC, which is everywhere but in the image.
func Open(ctx context.Context) (*Updater, error) {
	const op = "update.Open"
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Unsupported, "this system is not updated as an image: the system bus does "+
			"not answer: %w", err)
	}
	u := &Updater{conn: conn, object: conn.Object(service, "/")}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var compatible dbus.Variant
	if err := u.object.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, installer,
		"Compatible").Store(&compatible); err != nil {
		_ = conn.Close()
		return nil, edgewise.Errorf(op, edgewise.Unsupported, "this system is not updated as an image: RAUC does not "+
			"answer: %w", err)
	}
	return u, nil
}

// Close ends the connection. What is being installed goes on.
func (u *Updater) Close() error {
	if err := u.conn.Close(); err != nil {
		return edgewise.Errorf("update.Close", edgewise.Internal, "%w", err)
	}
	return nil
}

// Inspect reads what a bundle is, after its signature has been checked. Errors: Invalid, with RAUC's reason.
func (u *Updater) Inspect(ctx context.Context, path string) (Bundle, error) {
	const op = "update.Inspect"
	var b Bundle
	if err := u.object.CallWithContext(ctx, installer+".Info", 0, path).Store(&b.Compatible, &b.Version); err != nil {
		return Bundle{}, edgewise.Errorf(op, edgewise.Invalid, "bundle %s is refused: %w", filepath.Base(path), err)
	}
	return b, nil
}

// Install writes a bundle into the slot that does not run and makes it the next to be started; nothing is restarted.
// progress, which may be nil, is told how far it is, from 0 to 100, in RAUC's words. Errors: Invalid with RAUC's
// reason, Busy while another is being installed, Canceled when ctx ends (the installation itself then goes on),
// Unavailable when RAUC ends in the middle: the slot is then not bootable, and the one that runs is untouched.
func (u *Updater) Install(ctx context.Context, path string, progress func(percent int, doing string)) error {
	const op = "update.Install"
	if operation, err := u.text("Operation"); err != nil {
		return err
	} else if operation != idle {
		return edgewise.Errorf(op, edgewise.Busy, "an update is being installed already")
	}
	signals := make(chan *dbus.Signal, 64)
	u.conn.Signal(signals)
	defer u.conn.RemoveSignal(signals)
	matches := [][]dbus.MatchOption{
		{dbus.WithMatchObjectPath("/"), dbus.WithMatchSender(service)},
		{
			dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"),
			dbus.WithMatchArg(0, service),
		},
	}
	for _, match := range matches {
		if err := u.conn.AddMatchSignalContext(ctx, match...); err != nil {
			return edgewise.Errorf(op, edgewise.Unavailable, "%w", err)
		}
		defer func() { _ = u.conn.RemoveMatchSignal(match...) }()
	}
	if err := u.object.CallWithContext(ctx, installer+".InstallBundle", 0, path,
		map[string]dbus.Variant{}).Err; err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "bundle %s is refused: %w", filepath.Base(path), err)
	}
	return u.follow(ctx, filepath.Base(path), signals, progress)
}

// follow waits for the end of an installation.
func (u *Updater) follow(ctx context.Context, name string, signals <-chan *dbus.Signal,
	progress func(int, string),
) error {
	const op = "update.Install"
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return edgewise.Errorf(op, edgewise.Canceled, "no longer waiting for %s, which is still being installed", name)
		case <-look.C: // a signal may be lost; what RAUC does is not
			if operation, err := u.text("Operation"); err != nil {
				return err
			} else if operation == idle {
				return u.outcome(name)
			}
		case s, open := <-signals:
			switch {
			case !open:
				return edgewise.Errorf(op, edgewise.Unavailable, "the system bus has closed the connection")
			case left(s):
				return edgewise.Errorf(op, edgewise.Unavailable, "RAUC ended while %s was being installed: the system that runs "+
					"is untouched; try again", name)
			case s.Name == installer+".Completed":
				return u.outcome(name)
			}
			if percent, doing, ok := advanced(s); ok && progress != nil {
				progress(percent, doing)
			}
		}
	}
}

// outcome is how the last installation went.
func (u *Updater) outcome(name string) error {
	reason, err := u.text("LastError")
	if err != nil || reason == "" {
		return err
	}
	return edgewise.Errorf("update.Install", edgewise.Invalid, "bundle %s is refused: %s", name, reason)
}

// left tells whether a signal says that RAUC has gone.
func left(s *dbus.Signal) bool {
	if s.Name != "org.freedesktop.DBus.NameOwnerChanged" || len(s.Body) != 3 {
		return false
	}
	who, _ := s.Body[0].(string)
	now, _ := s.Body[2].(string)
	return who == service && now == ""
}

// advanced reads RAUC's progress out of a signal.
func advanced(s *dbus.Signal) (percent int, doing string, ok bool) {
	if s.Name != "org.freedesktop.DBus.Properties.PropertiesChanged" || len(s.Body) < 2 {
		return 0, "", false
	}
	changed, _ := s.Body[1].(map[string]dbus.Variant)
	parts, _ := changed["Progress"].Value().([]any)
	if len(parts) != 3 {
		return 0, "", false
	}
	p, okPercent := parts[0].(int32)
	d, okDoing := parts[1].(string)
	return int(p), d, okPercent && okDoing
}

// text reads a property.
func (u *Updater) text(name string) (string, error) {
	v, err := u.object.GetProperty(installer + "." + name)
	if err != nil {
		return "", edgewise.Errorf("update", edgewise.Unavailable, "asking RAUC for %s: %w", name, err)
	}
	s, _ := v.Value().(string)
	return s, nil
}

// What a slot can be marked as.
const (
	Good   = "good"   // it may be started, and its tries are forgotten
	Bad    = "bad"    // it is not started any more
	Active = "active" // it is good, and the next to be started
)

// Which slot is meant.
const (
	Booted = "booted" // the one that runs
	Other  = "other"  // the one that does not
)

// Mark marks a slot. Errors: Unavailable, with RAUC's reason.
func (u *Updater) Mark(ctx context.Context, as, slot string) error {
	if err := u.object.CallWithContext(ctx, installer+".Mark", 0, as, slot).Err; err != nil {
		return edgewise.Errorf("update.Mark", edgewise.Unavailable, "marking the %s slot as %s: %w", slot, as, err)
	}
	return nil
}

// Status asks RAUC for the state of the box. Errors: Unavailable.
func (u *Updater) Status(ctx context.Context) (Status, error) {
	var s Status
	for name, to := range map[string]*string{
		"Compatible": &s.Compatible, "BootSlot": &s.Booted, "Operation": &s.Operation,
		"LastError": &s.LastError,
	} {
		text, err := u.text(name)
		if err != nil {
			return Status{}, err
		}
		*to = text
	}
	var slots []rawSlot
	if err := u.object.CallWithContext(ctx, installer+".GetSlotStatus", 0).Store(&slots); err != nil {
		return Status{}, edgewise.Errorf("update.Status", edgewise.Unavailable, "asking RAUC for its slots: %w", err)
	}
	var primary string
	// an error: none can be booted
	if err := u.object.CallWithContext(ctx, installer+".GetPrimary", 0).Store(&primary); err == nil {
		s.Primary = primary
	}
	for _, raw := range slots {
		slot := raw.slot()
		if raw.Name == s.Primary {
			s.Primary = slot.Name
		}
		s.Slots = append(s.Slots, slot)
	}
	return s, nil
}

// rawSlot is a slot as RAUC tells it: its internal name and what is known of it.
type rawSlot struct {
	Name   string
	Values map[string]dbus.Variant
}

func (r rawSlot) slot() Slot {
	text := func(key string) string {
		s, _ := r.Values[key].Value().(string)
		return s
	}
	activated, _ := r.Values["activated.count"].Value().(uint32)
	return Slot{
		Name: text("bootname"), State: text("state"), Good: text("boot-status") == "good", Version: text("bundle.version"),
		Installed: text("installed.timestamp"),
		Activated: activated,
	}
}
