package image

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// offline: a box without a network device from its first second comes up and passes its check. A cable that comes later
// works.
func (t *trial) offline() error {
	t.machine.offline = true
	if err := t.machine.start(); err != nil {
		return err
	}
	for _, text := range []string{"there is no network yet", "Claim code:", "SHA-256 of the certificate:"} {
		if _, err := t.machine.says(text, t.patience); err != nil {
			return err
		}
	}
	if err := inOrder(
		func() error { return t.machine.screenshot("screen") },
		t.good, // the page and a golden inference have answered, inside
		func() error { return t.machine.monitor("netdev_add " + t.machine.net()) },
		func() error { return t.machine.monitor("device_add usb-net,netdev=net,bus=usb.0") },
	); err != nil {
		return err
	}
	took, err := t.box.answers(t.patience)
	if err != nil {
		return err
	}
	t.say("           a network comes: the page answers after %.1f s", took.Seconds())
	return t.claim()
}

// clock: a box whose battery is empty stands at the time of its release, says so, works and takes an update.
func (t *trial) clock() error {
	t.machine.clock = "1970-01-02T00:00:00"
	return inOrder(
		t.on,
		func() error {
			_, err := t.machine.says("The clock is not set", t.patience)
			return err
		},
		t.claim, t.good, t.update,
	)
}

// secure: with Secure Boot on and Microsoft's keys the box starts, and its kernel knows.
func (t *trial) secure() error {
	t.machine.conditions.secure = true
	if err := inOrder(t.on, t.good, func() error { return t.machine.off(t.patience) }); err != nil {
		return err
	}
	log, err := disk(t.machine.disk).journal(t.machine.file("data"), "")
	if err != nil {
		return err
	}
	for _, text := range []string{"secureboot: Secure boot enabled", "Kernel is locked down from EFI Secure Boot"} {
		if !strings.Contains(log, text) {
			return fmt.Errorf("the kernel has not said %q", text)
		}
	}
	return nil
}

// forgedTime is how long a machine is watched that must not start; a machine that may has its menu on the console by
// then.
const forgedTime = 3 * time.Minute

// forged: with Secure Boot on, a boot loader of which a byte was changed is not started.
func (t *trial) forged() error {
	t.machine.conditions.secure = true
	loader := t.machine.file("loader")
	if err := execute("mcopy", "-o", "-i", t.machine.disk+"@@1M", "::EFI/BOOT/grubx64.efi", loader); err != nil {
		return err
	}
	if err := spoilLoader(loader); err != nil {
		return err
	}
	if err := disk(t.machine.disk).place(loader, "EFI/BOOT/grubx64.efi"); err != nil {
		return err
	}
	if err := t.machine.start(); err != nil {
		return err
	}
	if _, err := t.machine.says("Security Violation", forgedTime); err != nil {
		return errors.Join(err, t.machine.screenshot("forged"))
	}
	if strings.Contains(t.machine.read(), "Edgewise, slot A") {
		return errors.New("a forged boot loader has shown its menu")
	}
	return t.machine.screenshot("forged")
}

// spoilLoader changes a byte in the middle of a program, which still can be started but for its signature.
func spoilLoader(path string) error {
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	program[len(program)/2] ^= 1
	return os.WriteFile(path, program, 0o644)
}

// network is a small model of which no two seeds are the same.
func network(seed uint64) []byte { return onnxgen.MLP(seed).Bytes() }
