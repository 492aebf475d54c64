package main

import (
	"errors"
	"net/http"
)

// reset: a file on the boot partition and the boot menu each erase what users have stored; the system stays.
func (t *trial) reset() error {
	if err := disk(t.machine.disk).place("configs/demo/LICENSES.md", "factory-reset"); err != nil {
		return err
	}
	if err := t.on(); err != nil {
		return err
	}
	if err := t.empty("file"); err != nil {
		return err
	}
	if err := t.claim(); err != nil {
		return err
	}
	if err := t.marked("B"); err != nil { // the file is gone once the box is up
		return err
	}
	t.machine.cut()
	if err := t.machine.start(); err != nil {
		return err
	}
	if err := t.choose("slot B: erases", 3); err != nil {
		return err
	}
	if _, err := t.box.answers(t.patience); err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	return t.empty("menu")
}

// empty finds a box that nobody has claimed.
func (t *trial) empty(by string) error {
	var setup struct{ Claimed bool }
	if err := t.box.want(http.MethodGet, "/api/v1/setup", "", nil, &setup); err != nil {
		return err
	}
	if setup.Claimed {
		return errors.New("the box is claimed after a factory reset by the " + by)
	}
	t.say("           factory reset by the %s: nobody has claimed the box", by)
	return t.machine.screenshot("after-" + by)
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
