package fakerauc

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

const (
	name  = "de.pengutronix.rauc"
	iface = name + ".Installer"
	fault = "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code0"
)

// Bundle is what a file must hold, as JSON, to be a bundle for this RAUC. The file begins as a squashfs does.
type Bundle struct {
	Compatible, Version string
	Signer              string // "" is the one that is trusted
	Fails               string // the installation ends with this error
	Hangs               bool   // the installation stops at 60 % until Continue or Stop
}

// magic is how a squashfs begins.
const magic = "hsqs"

// Bytes returns the bundle as the content of a file.
func (b Bundle) Bytes() []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return append([]byte(magic), text...)
}

// RAUC is a service that installs bundles into slots which do not exist. Its messages are those of RAUC 1.13.
type RAUC struct {
	t    testing.TB
	conn *dbus.Conn
	prop *prop.Properties

	mu        sync.Mutex // guards what follows
	slots     map[string]slot
	booted    string
	order     []string
	downgrade func() bool // whether what is older than the booted slot is taken
	going     chan struct{}
	busy      bool // it answers nobody
	installed []string
}

type slot struct {
	version   string
	good      bool
	activated uint32
}

// Start puts RAUC on the system bus of this process. Slot A runs version, slot B is empty.
func Start(t testing.TB, version string) *RAUC {
	t.Helper()
	r := &RAUC{
		t: t, slots: map[string]slot{"A": {version, true, 0}, "B": {"", false, 0}}, booted: "A",
		order: []string{"A", "B"}, downgrade: func() bool { return false },
	}
	var err error
	if r.conn, err = dbus.ConnectSystemBus(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	if err := r.conn.ExportMethodTable(map[string]any{
		"InstallBundle": r.install, "Info": r.info, "GetSlotStatus": r.status, "GetPrimary": r.primary, "Mark": r.mark,
	}, "/", iface); err != nil {
		t.Fatal(err)
	}
	ro := func(v any) *prop.Prop { return &prop.Prop{Value: v, Emit: prop.EmitTrue} }
	r.prop, err = prop.Export(r.conn, "/", prop.Map{iface: {
		"Operation": ro("idle"), "LastError": ro(""), "Compatible": ro("edgewise-x86-64"), "BootSlot": ro("A"),
		"Progress": ro(progress{0, "", 0}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := r.conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("RAUC's name: %v %v", reply, err)
	}
	return r
}

type progress struct {
	Percent int32
	Message string
	Depth   int32
}

// Stop ends the service, also in the middle of an installation.
func (r *RAUC) Stop() { _ = r.conn.Close() }

// Downgrades says who decides whether something older is taken.
func (r *RAUC) Downgrades(allowed func() bool) { r.locked(func() { r.downgrade = allowed }) }

// Boot makes the machine run a slot, as a restart into it does; good says whether it has passed its check.
func (r *RAUC) Boot(name string, good bool) {
	r.locked(func() {
		s := r.slots[name]
		s.good = good
		r.slots[name], r.booted = s, name
	})
	r.prop.SetMust(iface, "BootSlot", name)
}

// Fail makes the machine run a slot that has passed its check, after three starts of the other one that did not pass
// theirs.
func (r *RAUC) Fail(runs string) {
	r.locked(func() {
		for name, s := range r.slots {
			if name != runs {
				s.good = false
				r.slots[name] = s
			}
		}
	})
	r.Boot(runs, true)
}

// Stick installs a version as somebody does who does not ask the box.
func (r *RAUC) Stick(version string) {
	r.locked(func() {
		other := map[string]string{"A": "B", "B": "A"}[r.booted]
		r.slots[other] = slot{version, true, r.slots[other].activated + 1}
		r.order = []string{other, r.booted}
	})
}

// Busy lets RAUC answer no request for its slots, as during an installation from a stick.
func (r *RAUC) Busy(busy bool) { r.locked(func() { r.busy = busy }) }

// Good tells whether a slot may be booted, and Version what is in it.
func (r *RAUC) Good(name string) (good bool) {
	r.locked(func() { good = r.slots[name].good })
	return good
}

// Installed returns the versions that were written, in order.
func (r *RAUC) Installed() (list []string) {
	r.locked(func() { list = slices.Clone(r.installed) })
	return list
}

// Continue lets an installation that hangs go on.
func (r *RAUC) Continue() {
	r.locked(func() {
		if r.going != nil {
			close(r.going)
			r.going = nil
		}
	})
}

func (r *RAUC) locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func refused(text string) *dbus.Error { return dbus.NewError(fault, []any{text}) }

// read is what RAUC does before anything else: the signature.
func read(path string) (Bundle, *dbus.Error) {
	var b Bundle
	text, err := os.ReadFile(path)
	if err != nil {
		return b, refused("failed to open bundle: " + err.Error())
	}
	if len(text) < len(magic) || string(text[:len(magic)]) != magic || json.Unmarshal(text[len(magic):], &b) != nil {
		return b, refused("Invalid bundle format")
	}
	if b.Signer != "" {
		return b, refused("signature verification failed: Verify error: unable to get local issuer certificate")
	}
	return b, nil
}

func (r *RAUC) info(path string) (compatible, version string, err *dbus.Error) {
	b, err := read(path)
	return b.Compatible, b.Version, err
}

func (r *RAUC) install(path string, _ map[string]dbus.Variant) *dbus.Error {
	b, err := read(path)
	if err != nil {
		b.Fails = err.Body[0].(string)
	}
	if r.prop.GetMust(iface, "Operation") != "idle" {
		return refused("Already processing a different method")
	}
	r.prop.SetMust(iface, "Operation", "installing")
	r.prop.SetMust(iface, "LastError", "")
	go r.work(b)
	return nil
}

// work writes a bundle into the slot that does not run, and says so as it goes.
func (r *RAUC) work(b Bundle) {
	say := func(percent int32, text string) {
		if r.conn.Connected() {
			r.prop.SetMust(iface, "Progress", progress{percent, text, 1})
		}
	}
	say(0, "Installing")
	say(20, "Checking bundle")
	reason := b.Fails
	var other string
	r.locked(func() {
		other = map[string]string{"A": "B", "B": "A"}[r.booted]
		switch {
		case reason != "":
		case b.Compatible != "edgewise-x86-64":
			reason = "Compatible mismatch: Expected 'edgewise-x86-64' but bundle manifest has '" + b.Compatible + "'"
		case b.Version < r.slots[r.booted].version && !r.downgrade():
			reason = "Pre-install handler error: version " + b.Version + " is older than " + r.slots[r.booted].version +
				", which runs: confirm a downgrade to install it"
		}
	})
	if reason == "" {
		say(60, "Copying image to rootfs.1")
		if b.Hangs {
			going := make(chan struct{})
			r.locked(func() { r.going = going })
			select {
			case <-going:
			case <-r.conn.Context().Done():
				return
			}
		}
		r.locked(func() {
			r.slots[other] = slot{b.Version, true, r.slots[other].activated + 1}
			r.order = []string{other, r.booted}
			r.installed = append(r.installed, b.Version)
		})
	}
	say(100, "Installing done.")
	code := int32(0)
	if reason != "" {
		code = 1
	}
	r.prop.SetMust(iface, "LastError", reason)
	r.prop.SetMust(iface, "Operation", "idle")
	_ = r.conn.Emit("/", iface+".Completed", code)
}

var devices = map[string]string{"A": "rootfs.0", "B": "rootfs.1"}

type slotStatus struct {
	Name   string
	Values map[string]dbus.Variant
}

func (r *RAUC) status() (list []slotStatus, _ *dbus.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		return nil, refused("already processing a different method")
	}
	for _, name := range slices.Sorted(maps.Keys(r.slots)) {
		s := r.slots[name]
		values := map[string]string{"bootname": name, "state": "inactive", "boot-status": "bad"}
		if name == r.booted {
			values["state"] = "booted"
		}
		if s.good {
			values["boot-status"] = "good"
		}
		if s.version != "" {
			values["bundle.version"], values["installed.timestamp"] = s.version, "2026-11-21T10:00:00Z"
		}
		made := slotStatus{devices[name], map[string]dbus.Variant{"activated.count": dbus.MakeVariant(s.activated)}}
		for k, v := range values {
			made.Values[k] = dbus.MakeVariant(v)
		}
		list = append(list, made)
	}
	return list, nil
}

// primary is the first in order that is good and has no try that is not decided.
func (r *RAUC) primary() (string, *dbus.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.order {
		if r.slots[name].good {
			return devices[name], nil
		}
	}
	return "", refused("Failed getting primary slot: No bootable slot found")
}

func (r *RAUC) mark(state, which string) (slotName, message string, _ *dbus.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := which
	switch which {
	case "booted":
		at = r.booted
	case "other":
		at = map[string]string{"A": "B", "B": "A"}[r.booted]
	default:
		for name, device := range devices {
			if device == which {
				at = name
			}
		}
	}
	s, known := r.slots[at]
	if !known {
		return "", "", refused("No slot with class 'rootfs' and identifier '" + which + "' found")
	}
	switch state {
	case "good", "bad":
		s.good = state == "good"
		r.slots[at] = s
	case "active":
		s.good = true
		s.activated++
		r.slots[at] = s
		r.order = append([]string{at}, slices.DeleteFunc(slices.Clone(r.order), func(n string) bool { return n == at })...)
	default:
		return "", "", refused("unknown subcommand " + state)
	}
	return devices[at], "marked slot " + devices[at] + " as " + state, nil
}
