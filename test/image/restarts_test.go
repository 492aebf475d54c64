package image

import (
	"fmt"
	"net/http"
	"time"
)

// orderlyRestarts is one more than a slot has tries.
const orderlyRestarts = 4

// restarts: somebody restarts the box by its page again and again before the slot's check has ended, and once by the
// power button: none of these starts is counted, and the slot is kept.
func (t *trial) restarts() error {
	values, err := disk(t.machine.disk).environment()
	if err != nil {
		return err
	}
	slot := taken(values)
	if err := t.machine.start(); err != nil {
		return err
	}
	for n := range orderlyRestarts {
		if err := t.unchecked(slot); err != nil {
			return fmt.Errorf("start %d: %w", n+1, err)
		}
		t.machine.forget()
		if err := t.box.want(http.MethodPost, "/api/v1/system/restart", "", nil, nil); err != nil {
			return err
		}
	}
	if err := inOrder(func() error { return t.unchecked(slot) }, func() error { return t.machine.off(t.patience) }); err != nil {
		return err
	}
	if values, err = disk(t.machine.disk).environment(); err != nil || values[slot+"_TRY"] != "0" {
		return fmt.Errorf("the machine was shut down, and its start was counted: %v %w", values, err)
	}
	if err := inOrder(t.machine.start, func() error { return t.unchecked(slot) }); err != nil {
		return err
	}
	begun := time.Now()
	if err := t.marked(slot); err != nil {
		return err
	}
	t.say("           %d starts in a row were each the first try; slot %s is marked good after %.1f s more",
		orderlyRestarts+2, slot, time.Since(begun).Seconds())
	return nil
}

// unchecked waits until the page of a start lets its user in, and finds that it is the slot's first try and that the
// check has not ended.
func (t *trial) unchecked(slot string) error {
	if _, err := t.machine.says("Edgewise, slot "+slot+" (good 1, try ", t.patience); err != nil {
		return err
	}
	if _, err := t.machine.says("Edgewise, slot "+slot+" (good 1, try 1)", 10*time.Second); err != nil {
		return err
	}
	if _, err := t.box.answers(t.patience); err != nil {
		return err
	}
	if err := t.login(); err != nil {
		return err
	}
	values, err := disk(t.machine.disk).environment()
	if err != nil || values[slot+"_TRY"] != "1" {
		return fmt.Errorf("the check of slot %s has ended too early for this test: %v %w", slot, values, err)
	}
	return nil
}
