package update

import (
	"context"

	"github.com/godbus/dbus/v5"

	"github.com/edgewise-ai/edgewise"
)

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
