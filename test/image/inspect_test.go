package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Bounds of what people download and of what is on the disk before it grows, in bytes.
const (
	maxImage    = 720_000_000
	maxDownload = 250_000_000
)

// inspect looks into the image without a start: sizes, partitions, boot partition, and what is in the slot.
func (t *trial) inspect() error {
	image := filepath.Join(t.image, "edgewise-"+t.version+".img")
	return errors.Join(
		t.bounded(image, maxImage), t.bounded(image+".zst", maxDownload),
		aligned(disk(image)), t.bootPartition(disk(image)), t.downloads(image), t.slotContents(), t.listed(), t.sandboxed(),
	)
}

func (t *trial) bounded(path string, most int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	t.say("           %s: %.1f MB", filepath.Base(path), float64(info.Size())/1e6)
	if info.Size() > most {
		return fmt.Errorf("%s has %d bytes: want at most %d", path, info.Size(), most)
	}
	return nil
}

// aligned finds a table of partitions without faults, in which each begins at a whole mebibyte.
func aligned(image disk) error {
	out, err := exec.CommandContext(context.Background(), "sgdisk", "--verify", string(image)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No problems found") {
		return fmt.Errorf("sgdisk: %w: %s", err, out)
	}
	for n := 1; n <= 2; n++ {
		at, _, err := image.partition(n)
		if err != nil {
			return err
		}
		if at%(1<<20) != 0 {
			return fmt.Errorf("partition %d begins at %d, which is no whole mebibyte", n, at)
		}
	}
	return nil
}

// bootPartition finds the signed programs and the variables of a first start.
func (t *trial) bootPartition(image disk) error {
	out, err := exec.CommandContext(context.Background(), "mdir", "-/", "-b", "-i", string(image)+"@@1M", "::").Output()
	if err != nil {
		return fmt.Errorf("mdir: %w", err)
	}
	shim, loader := "BOOTX64.EFI", "grubx64.efi"
	if t.arch == "arm64" {
		shim, loader = "BOOTAA64.EFI", "grubaa64.efi"
	}
	for _, name := range []string{
		"EFI/BOOT/" + shim, "EFI/BOOT/" + loader, "EFI/debian/grub.cfg", "EFI/debian/grubenv",
		"edgewise.conf.example",
	} {
		if !strings.Contains(string(out), "::/"+name+"\n") {
			return fmt.Errorf("the boot partition has no %s", name)
		}
	}
	values, err := image.environment()
	if err != nil {
		return err
	}
	if taken(values) != "A" || values["B_OK"] != "0" || values["MACHINE_ID"] != "" {
		return fmt.Errorf("the variables of a first start are %v", values)
	}
	return nil
}

// downloads unpacks what people download, checks it as docs/flash.md says, and gets the image back.
func (t *trial) downloads(image string) error {
	back := filepath.Join(t.dir, "unpacked.img")
	defer func() { _ = os.Remove(back) }()
	sums := "SHA256SUMS-" + t.version
	for _, command := range []string{
		"minisign -V -q -p " + absolute(filepath.Join(t.keys, "edgewise.pub")) + " -m " + sums,
		"sha256sum --check --quiet --ignore-missing " + sums,
		"bmaptool --quiet copy " + filepath.Base(image) + ".zst " + back,
		"cmp " + filepath.Base(image) + " " + back,
	} {
		cmd := exec.CommandContext(context.Background(), "sh", "-c", command)
		cmd.Dir = t.image
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// forbidden is what no slot may hold: secrets, a machine's name, package tools' leftovers, and what makes its starter
// root.
var forbidden = regexp.MustCompile(`(?m)^-[rwx-]*[sS].*$|` +
	`^-.* squashfs-root/(.*\.key|etc/ssh/.*|root/\.ssh/.*|etc/shadow-|var/.+|usr/share/man/.+)$|` +
	`^-r[w-][x-].* [1-9][0-9]* \S+ \S+ squashfs-root/etc/machine-id$`)

func (t *trial) slotContents() error {
	slot := filepath.Join(t.image, "slot-"+t.version+".squashfs")
	out, err := exec.CommandContext(context.Background(), "unsquashfs", "-lln", slot).Output()
	if err != nil {
		return fmt.Errorf("unsquashfs: %w", err)
	}
	if found := forbidden.FindAllString(string(out), 5); found != nil {
		return fmt.Errorf("the slot holds what it must not: %q", found)
	}
	for _, name := range []string{
		"boot/vmlinuz", "boot/initrd.img", "usr/lib/edgewise/edgewise", "usr/lib/edgewise/lib/libonnxruntime.so.1",
		"etc/rauc/ca.pem", "usr/share/edgewise/sbom.json",
		// restarts, the reset by the page and the log of a failed start are the helper's
		"etc/systemd/system/sockets.target.wants/edgewise-helper.socket",
	} {
		if !strings.Contains(string(out), " squashfs-root/"+name) {
			return fmt.Errorf("the slot has no %s", name)
		}
	}
	keys, err := exec.CommandContext(context.Background(), "unsquashfs", "-cat", slot, "etc/rauc/ca.pem").Output()
	if err != nil || strings.Contains(string(keys), "PRIVATE") {
		return fmt.Errorf("the slot's authority is no certificate: %w", err)
	}
	return nil
}

// listed finds the list of components, with what cannot be missing.
func (t *trial) listed() error {
	text, err := os.ReadFile(filepath.Join(t.image, "sbom-"+t.version+".json"))
	if err != nil {
		return err
	}
	var list struct {
		Components []struct{ Name, Version, Type string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	have := map[string]bool{}
	for _, c := range list.Components {
		if c.Version == "" && c.Type == "library" {
			return fmt.Errorf("component %s has no version", c.Name)
		}
		have[c.Name] = true
	}
	for _, name := range []string{"systemd", "rauc", "libc6", "onnxruntime", "github.com/tetratelabs/wazero", "edgewise"} {
		if !have[name] {
			return fmt.Errorf("the list of components lacks %s", name)
		}
	}
	t.say("           %d components are listed", len(list.Components))
	return nil
}

// Bounds of what systemd says of a sandbox, in tenths: 0 is closed, 100 open.
const (
	maxServer = 20
	maxChild  = 10
)

var exposure = regexp.MustCompile(`Overall exposure level for \S+ ([0-9.]+)`)

// sandboxed measures the unit, and what the processes of models would be as a unit: they inherit its sandbox, and a
// filter of system calls lets them make no socket (appliance/runner).
func (t *trial) sandboxed() error {
	const unit = "configs/systemd/edgewise.service"
	text, err := os.ReadFile(unit)
	if err != nil {
		return err
	}
	child := filepath.Join(t.dir, "child.service")
	families := regexp.MustCompile(`(?m)^RestrictAddressFamilies=.*$`)
	if err := os.WriteFile(child, families.ReplaceAll(text, []byte("RestrictAddressFamilies=none\nIPAddressDeny=any")), 0o644); err != nil {
		return err
	}
	for path, most := range map[string]int{unit: maxServer, child: maxChild} {
		out, err := exec.CommandContext(context.Background(), "systemd-analyze", "security", "--offline=true",
			fmt.Sprintf("--threshold=%d", most), path).CombinedOutput()
		found := exposure.FindSubmatch(out)
		if err != nil || found == nil {
			return fmt.Errorf("systemd-analyze: the sandbox of %s: %w: %s", path, err, out)
		}
		t.say("           sandbox of %s: %s", filepath.Base(path), found[1])
	}
	return nil
}
