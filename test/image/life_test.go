package image

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// claimCode finds the claim code on a console that shows the fingerprint, too.
var claimCode = regexp.MustCompile(`Claim code: +([A-Z0-9]{4}(-[A-Z0-9]{4})+)\n\s*SHA-256 of the certificate:\n\s*([0-9A-F]{2}:){31}`)

// boot: a flashed disk becomes a page.
func (t *trial) boot() error { return t.on() }

// claim: the console shows what is needed, and it lets its reader in.
func (t *trial) claim() error {
	console, err := t.machine.matches(claimCode, t.patience)
	if err != nil {
		return err
	}
	if err := t.machine.screenshot("screen"); err != nil {
		return err
	}
	found := claimCode.FindAllStringSubmatch(console, -1)
	var setup struct{ Fingerprint string }
	if err := t.box.want(http.MethodGet, "/api/v1/setup", "", nil, &setup); err != nil {
		return err
	}
	if setup.Fingerprint == "" || !strings.Contains(console, setup.Fingerprint) {
		return fmt.Errorf("the console does not show the fingerprint %s", setup.Fingerprint)
	}
	return t.box.enter("/api/v1/setup/claim", map[string]string{"code": found[len(found)-1][1], "user": "admin", "password": password})
}

const ownModel = "dist/demo/models/face/1/model.onnx"

// model: a model of the user's is uploaded, and the demo's pipeline answers.
func (t *trial) model() error {
	return inOrder(func() error { return t.box.push("mine", ownModel, t.patience) }, t.voice)
}

// voice waits for the demo's pipeline and the model that it asks, and compares its answer.
func (t *trial) voice() error {
	if err := errors.Join(t.box.ready("vad", t.patience), t.box.ready("speech", t.patience)); err != nil {
		return err
	}
	return t.box.voice("speech")
}

// good: the slot passes its check, and GRUB's counter is back at 0.
func (t *trial) good() error { return t.marked("A") }

// marked waits until GRUB's variables say that a slot is good, with no try counted.
func (t *trial) marked(slot string) error {
	return await(t.patience, "slot "+slot+" is marked good", func() (bool, error) {
		values, err := disk(t.machine.disk).environment() // read while the box writes it: an error may pass
		if err == nil {
			err = fmt.Errorf("the variables are %v", values)
		}
		if values[slot+"_TRY"] == "0" && values[slot+"_OK"] == "1" && strings.HasPrefix(values["ORDER"], slot) {
			return true, nil
		}
		return false, err
	})
}

// whole finds the user's model as it was, and the demo's pipeline.
func (t *trial) whole() error {
	return inOrder(
		func() error { return t.box.ready("mine", t.patience) },
		func() error { return t.box.holds("mine", ownModel) },
		t.voice,
	)
}

// keep: the power button switches the box off in order. Its disk is kept, for the steps that begin with a claimed box.
func (t *trial) keep() error {
	if err := t.machine.off(t.patience); err != nil {
		return err
	}
	from := t.machine.disk
	t.machine, t.record = nil, nil
	return os.Rename(from, string(t.kept()))
}
