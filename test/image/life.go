package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

var claimCode = regexp.MustCompile(`Claim code: +([A-Z0-9]{4}(-[A-Z0-9]{4})+)`)

// boot: a flashed disk becomes a page.
func (t *trial) boot() error {
	if err := t.machine.start(); err != nil {
		return err
	}
	took, err := t.box.answers(bootTime)
	if err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	fmt.Printf("           power-on to HTTP 200: %.1f s\n", took.Seconds())
	return nil
}

// claim: the console shows what is needed, and it lets its reader in.
func (t *trial) claim() error {
	console, err := t.machine.says("SHA-256 of the certificate:", time.Minute)
	if err != nil {
		return err
	}
	if err := t.machine.screenshot("first-boot"); err != nil {
		return err
	}
	found := claimCode.FindStringSubmatch(console)
	if found == nil {
		return errors.New("there is no claim code on the console")
	}
	var setup struct{ Fingerprint string }
	if err := t.box.want(http.MethodGet, "/api/v1/setup", "", nil, &setup); err != nil {
		return err
	}
	if setup.Fingerprint == "" || !strings.Contains(console, setup.Fingerprint) {
		return fmt.Errorf("the console does not show the fingerprint %s", setup.Fingerprint)
	}
	return t.box.enter("/api/v1/setup/claim", map[string]string{"code": found[1], "user": "admin", "password": password})
}

// model: a model of the user's is uploaded, and the demo's pipeline answers.
func (t *trial) model() error {
	if err := t.box.push("mine", "dist/demo/models/face/1/model.onnx"); err != nil {
		return err
	}
	if err := t.box.ready("speech", bootTime); err != nil {
		return err
	}
	return t.box.voice("speech")
}

// good: the slot passes its check, and GRUB's counter is back at 0.
func (t *trial) good() error { return t.marked("A_TRY=0") }

// marked waits until GRUB's variables say so.
func (t *trial) marked(line string) error {
	end := time.Now().Add(bootTime)
	for {
		environment, err := t.machine.environment()
		if err == nil && strings.Contains(environment, "\n"+line+"\n") {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("GRUB's variables do not say %s: %s %w", line, strings.TrimRight(environment, "#"), err)
		}
		time.Sleep(time.Second)
	}
}

// again: the power is cut and comes back; everything is there. A first boot that damages the disk shows in the second.
func (t *trial) again() error { return t.restart() }

// restart cuts the power, starts and finds the user's model as it was.
func (t *trial) restart() error {
	t.machine.cut()
	if err := t.machine.start(); err != nil {
		return err
	}
	took, err := t.box.answers(bootTime)
	if err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	fmt.Printf("           power-on to HTTP 200: %.1f s\n", took.Seconds())
	if err := t.box.enter("/api/v1/session", map[string]string{"user": "admin", "password": password}); err != nil {
		return err
	}
	if err := t.box.ready("mine", bootTime); err != nil {
		return err
	}
	if err := t.box.ready("speech", bootTime); err != nil {
		return err
	}
	return t.box.voice("speech")
}
