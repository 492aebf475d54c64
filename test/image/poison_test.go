package image

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// poison is a model of the user's that ends the box when a new release loads it.
const poison = "poison"

// intolerant is a release with a fault that this model meets. It stands in for a new driver or a new runtime: at the
// load of the model the box hangs, so that systemd's watchdog has to end it, and in the next start it crashes.
var intolerant = map[string]string{
	dropIn: "[Service]\nExecStartPost=/usr/lib/edgewise/fault\n",
	"usr/lib/edgewise/fault": `#!/bin/bash
# loading MODEL: that model is being loaded, in a start that loads models
loading() { grep -q '"loading":\[[^]]*"'"$1"':1".*"safe":false' /var/lib/edgewise/starts.json; }
watch() {
	while true; do
		if loading ` + poison + `; then
			signal=SEGV
			if grep -q '"in_boot":1,' /var/lib/edgewise/starts.json; then signal=STOP; fi
			kill -$signal "$MAINPID"
			exit
		fi
		sleep 0.05
	done
} 2>/dev/null
watch >/dev/null &
`,
}

// poison: a release in which a model of the user's ends the box is kept all the same, its slot is good, and the box
// says what happened; somebody switches the model off, and the others are back.
func (t *trial) poison() error {
	if err := t.running(); err != nil {
		return err
	}
	if err := t.box.push(poison, ownModel, t.patience); err != nil {
		return err
	}
	const version = "9.9.8"
	bundle, err := t.changed(version, intolerant)
	if err != nil {
		return err
	}
	if err := t.install(bundle); err != nil {
		return err
	}
	begun := time.Now()
	if err := t.restart("Edgewise " + version + ", slot "); err != nil {
		return err
	}
	slot := shown.FindString(t.machine.read())
	slot = slot[len(slot)-1:]
	if err := t.isSafe(slot); err != nil {
		return err
	}
	t.say("           restart to the safe start that is marked good: %.1f s", time.Since(begun).Seconds())
	t.machine.cut()
	return inOrder(
		t.up,
		func() error { return t.isSafe(slot) }, // until somebody says otherwise
		t.switchOff,
		func() error { return t.restart("Edgewise " + version + ", slot " + slot) },
		t.login, t.whole,
		func() error { return t.marked(slot) },
		t.witnessed,
	)
}

// restart restarts the machine by the page, and waits until its console says a text and the page answers.
func (t *trial) restart(text string) error {
	t.machine.forget()
	if err := t.box.want(http.MethodPost, "/api/v1/system/restart", "", nil, nil); err != nil {
		return err
	}
	if _, err := t.machine.says(text, t.patience); err != nil {
		return errors.Join(err, t.machine.screenshot("no-restart"))
	}
	_, err := t.box.answers(t.patience)
	return err
}

// system is what the box says of itself.
type system struct {
	SafeStart *struct {
		Text   string
		Models []string
	} `json:"safe_start"`
	Warnings []warning
}

type warning struct{ Code string }

// warns tells whether the page's first screen has a warning.
func (s system) warns(code string) bool {
	return slices.Contains(s.Warnings, warning{code})
}

// isSafe waits for a safe start that names the model, and for the mark that the slot is good.
func (t *trial) isSafe(slot string) error {
	var s system
	if err := await(t.patience, "there is a safe start", func() (bool, error) {
		err := t.box.want(http.MethodGet, "/api/v1/system", "", nil, &s)
		if err != nil { // it is being started again
			_ = t.login()
		}
		return s.SafeStart != nil, nil
	}); err != nil {
		return err
	}
	t.say("           the box says: %s", s.SafeStart.Text)
	if !slices.Contains(s.SafeStart.Models, poison+":1") || !s.warns("safe_start") {
		return fmt.Errorf("the safe start is %+v", s)
	}
	return t.marked(slot)
}

// switchOff switches the model off that ends the box and lets the others be loaded.
func (t *trial) switchOff() error {
	var s system
	if err := inOrder(
		func() error {
			return t.box.want(http.MethodPost, "/v2/repository/models/"+poison+"/unload", "application/json", []byte("{}"), nil)
		},
		func() error { return t.box.want(http.MethodDelete, "/api/v1/system/safe-start", "", nil, nil) },
		t.whole,
		func() error { return t.box.want(http.MethodGet, "/api/v1/system", "", nil, &s) },
	); err != nil {
		return err
	}
	if s.SafeStart != nil {
		return fmt.Errorf("the safe start has not ended: %+v", s)
	}
	return nil
}

// witnessed finds in the journal of this step's three starts that the watchdog has ended the box once, that it has
// crashed once, and that no check has failed.
func (t *trial) witnessed() error {
	if err := t.machine.off(t.patience); err != nil {
		return err
	}
	log, err := disk(t.machine.disk).journal(t.machine.file("data"), "")
	if err != nil {
		return err
	}
	starts := strings.Split(log, "kernel: Linux version ")
	log = strings.Join(starts[max(0, len(starts)-3):], "\n")
	for _, text := range []string{"edgewise.service: Watchdog timeout", "SIGSEGV: segmentation violation"} {
		if n := strings.Count(log, text); n != 1 {
			return fmt.Errorf("the journal says %q %d times: want once", text, n)
		}
	}
	if strings.Contains(log, "has not passed its check") {
		return errors.New("the slot was given up for the sake of a model")
	}
	return nil
}
