package image

import (
	"errors"
	"fmt"
	"net/http"
)

// reset: the page, a file on the boot partition and the boot menu each erase what users have stored; the system stays,
// in the slot that ran, and the box has another certificate.
func (t *trial) reset() error {
	values, err := disk(t.machine.disk).environment()
	if err != nil {
		return err
	}
	slot := taken(values)
	if err := t.up(); err != nil {
		return err
	}
	if err := errors.Join(t.box.holds("mine", ownModel), t.resetByPage(slot)); err != nil {
		return err
	}
	if err := t.machine.off(t.patience); err != nil {
		return err
	}
	if err := disk(t.machine.disk).place("configs/demo/LICENSES.md", "factory-reset"); err != nil {
		return err
	}
	if err := t.on(); err != nil {
		return err
	}
	if err := errors.Join(t.empty("file"), t.claim()); err != nil {
		return err
	}
	if err := t.marked(slot); err != nil { // the file is gone once the box is up
		return err
	}
	t.machine.cut()
	if err := t.machine.start(); err != nil {
		return err
	}
	entry := map[string]int{"A": 2, "B": 3}[slot]
	if err := t.choose("slot "+slot+": erases", entry); err != nil {
		return err
	}
	if _, err := t.box.answers(t.patience); err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	return errors.Join(t.empty("menu"), t.marked(slot))
}

// resetByPage erases the box as its page does; the machine starts again by itself. The box is claimed afterwards.
func (t *trial) resetByPage(slot string) error {
	before, err := t.fingerprint()
	if err != nil {
		return err
	}
	for _, wrong := range []string{"", "yes"} {
		status, _, err := t.box.do(http.MethodPost, "/api/v1/system/factory-reset", "application/json", []byte(`{"confirm":"`+wrong+`"}`))
		if err != nil || status != http.StatusBadRequest {
			return fmt.Errorf("a factory reset that is confirmed with %q: %d, %w", wrong, status, err)
		}
	}
	t.machine.forget()
	if err := t.box.want(http.MethodPost, "/api/v1/system/factory-reset", "application/json", []byte(`{"confirm":"erase"}`), nil); err != nil {
		return err
	}
	if _, err := t.machine.says("Claim code:", t.patience); err != nil {
		return errors.Join(err, t.machine.screenshot("no-claim"))
	}
	if _, err := t.box.answers(t.patience); err != nil {
		return err
	}
	if err := errors.Join(t.empty("page"), t.claim(), t.gone("mine")); err != nil {
		return err
	}
	after, err := t.fingerprint()
	if err != nil {
		return err
	}
	if before == after {
		return errors.New("the box has the certificate of before the factory reset")
	}
	return t.marked(slot)
}

// fingerprint is that of the box's certificate, as the box tells it.
func (t *trial) fingerprint() (string, error) {
	var setup struct{ Fingerprint string }
	err := t.box.want(http.MethodGet, "/api/v1/setup", "", nil, &setup)
	return setup.Fingerprint, err
}

// empty finds a box that nobody has claimed. What it knew of this browser is forgotten here, too.
func (t *trial) empty(by string) error {
	var setup struct{ Claimed bool }
	if err := t.box.want(http.MethodGet, "/api/v1/setup", "", nil, &setup); err != nil {
		return err
	}
	if setup.Claimed {
		return errors.New("the box is claimed after a factory reset by the " + by)
	}
	t.say("           factory reset by the %s: nobody has claimed the box", by)
	t.box.forget()
	return t.machine.screenshot("after-" + by)
}

// gone finds nothing of a model.
func (t *trial) gone(model string) error {
	status, answer, err := t.box.do(http.MethodGet, "/api/v1/models/"+model, "", nil)
	if err != nil || status != http.StatusNotFound {
		return fmt.Errorf("model %s after a factory reset: %d %.100s %w", model, status, answer, err)
	}
	return nil
}

// choose goes down in the boot menu, once it shows an entry, and takes what is there.
func (t *trial) choose(entry string, down int) error {
	if _, err := t.machine.says(entry, t.patience); err != nil {
		return err
	}
	for range down {
		if err := t.machine.monitor("sendkey down"); err != nil {
			return err
		}
	}
	if err := t.machine.screenshot("menu"); err != nil {
		return err
	}
	return t.machine.monitor("sendkey ret")
}
