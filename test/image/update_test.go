package image

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// offer makes a bundle and returns its path.
type offer struct {
	name string
	make func(t *trial) (string, error)
	want string // in the refusal on the console, which is one line
}

var offers = []offer{
	{"flipped bytes", func(t *trial) (string, error) { return t.spoiled("flipped", flip) }, "Input/output error"},
	{"cut off", func(t *trial) (string, error) { return t.spoiled("truncated", truncate) }, "exceeds bundle size"},
	{"signed by a stranger", (*trial).foreign, "unable to get local issuer certificate"},
	{"for another kind of box", func(t *trial) (string, error) {
		return t.bundled("9.0.0", t.keys, "COMPATIBLE=another-box")
	}, "another-box"},
	{"older", func(t *trial) (string, error) { return t.bundled("0.0.1", t.keys, "") }, "is older than"},
}

// refused: bundles that must not be installed are not, and the box goes on.
func (t *trial) refused() error {
	if err := t.running(); err != nil {
		return err
	}
	for _, o := range offers {
		begun := time.Now()
		bundle, err := o.make(t)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		console, err := t.stick(bundle, "Update: refused", "Update: installed")
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		said, _, _ := strings.Cut(console[strings.LastIndex(console, "Update: "):], "\n")
		if !strings.Contains(said, "Update: refused") || !strings.Contains(said, o.want) {
			return fmt.Errorf("an update that is %s: the box says %q", o.name, said)
		}
		t.say("           %s, %.1f s: %s", o.name, time.Since(begun).Seconds(), strings.TrimSpace(said))
	}
	return t.voice()
}

// install installs a good bundle from a stick.
func (t *trial) install(bundle string) error {
	begun := time.Now()
	console, err := t.stick(bundle, "Update: installed", "Update: refused")
	if err != nil {
		return err
	}
	if said := console[strings.LastIndex(console, "Update: "):]; !strings.HasPrefix(said, "Update: installed") {
		return fmt.Errorf("the box says %q", said)
	}
	t.say("           installation: %.1f s", time.Since(begun).Seconds())
	if nameless.MatchString(t.machine.read()) {
		return errors.New("the console has shown a screen without the certificate's fingerprint")
	}
	return nil
}

// nameless finds a screen whose fingerprint is missing.
var nameless = regexp.MustCompile(`SHA-256 of the certificate:\s*\n\s*(Edgewise|Update)`)

// update: a good bundle is installed from a stick. Nothing is restarted.
func (t *trial) update() error {
	if err := t.running(); err != nil {
		return err
	}
	return t.install(filepath.Join(t.image, "edgewise-"+t.newer+".raucb"))
}

// started: the power is cut; the next start takes the slot that was updated, all data are there, and it passes its
// check.
func (t *trial) started() error {
	t.machine.cut()
	if err := t.up(); err != nil {
		return err
	}
	if _, err := t.machine.says("Edgewise "+t.newer+", slot B", t.patience); err != nil {
		return err
	}
	if err := t.whole(); err != nil {
		return err
	}
	return t.marked("B")
}

var shown = regexp.MustCompile(`Edgewise \S+, slot [AB]`)

// fallback: a release whose server ends at once is tried three times; then the slot before it is back, with all data,
// and the box says what happened and shows what the release said.
func (t *trial) fallback() error {
	if err := t.running(); err != nil {
		return err
	}
	const version = "9.9.9"
	bundle, err := t.broken(version)
	if err != nil {
		return err
	}
	before := shown.FindString(t.machine.read())
	if err := t.install(bundle); err != nil {
		return err
	}
	begun := time.Now()
	t.machine.cut()
	if err := t.machine.start(); err != nil {
		return err
	}
	console, err := t.machine.says(before, 4*t.patience)
	if err != nil {
		return errors.Join(err, t.machine.screenshot("stuck"))
	}
	if !strings.Contains(console, "(good 1, try 3)") {
		return errors.New("the slot that does not work was left before its third try")
	}
	if _, err := t.box.answers(t.patience); err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	t.say("           three tries and the page of %s: %.1f s", before, time.Since(begun).Seconds())
	if err := t.login(); err != nil {
		return err
	}
	if err := t.told(version); err != nil {
		return err
	}
	return t.whole()
}

// told waits until the box says which version did not start, and finds in the log what it said.
func (t *trial) told(version string) error {
	var box struct {
		system
		FailedBoot *struct {
			Version, Text string
		} `json:"failed_boot"`
	}
	if err := await(t.patience, "the box says that a start failed", func() (bool, error) {
		err := t.box.want(http.MethodGet, "/api/v1/system", "", nil, &box)
		return err != nil || box.FailedBoot != nil, err
	}); err != nil {
		return err
	}
	t.say("           the box says: %s", box.FailedBoot.Text)
	if box.FailedBoot.Version != version || !box.warns("failed_boot") {
		return fmt.Errorf("the box says that version %s has failed: want %s, and a warning: %+v", box.FailedBoot.Version, version, box.Warnings)
	}
	status, log, err := t.box.do(http.MethodGet, "/api/v1/system/failed-boot/log", "", nil)
	if err != nil {
		return err
	}
	said := bytes.Count(log, []byte(complaint))
	if status != http.StatusOK || said < 3 { // the service is started three times in each start
		return fmt.Errorf("the log of the failed starts: %d, %d complaints in %d bytes", status, said, len(log))
	}
	t.say("           its log has %d bytes and %d complaints of the release", len(log), said)
	return os.WriteFile(t.machine.file("failed-boot.log"), log, 0o644)
}

// complaint is what a broken release says before it ends.
const complaint = "this release does not start"

// broken makes a bundle of the image's slot with a server that ends at once.
func (t *trial) broken(version string) (string, error) {
	return t.changed(version, map[string]string{
		dropIn: "[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo " + complaint + "; exit 1'\n",
	})
}

// dropIn is a file of a slot that changes the server's unit.
const dropIn = "etc/systemd/system/edgewise.service.d/90-test.conf"

// changed makes a bundle of the image's slot, as another version, with some files of its own, by their paths. Scripts
// are those that begin with "#!".
func (t *trial) changed(version string, files map[string]string) (string, error) {
	root, slot := t.machine.file("slot"), filepath.Join(t.image, "slot-"+version+".squashfs")
	defer func() { _, _ = os.RemoveAll(root), os.Remove(slot) }()
	if err := execute("unsquashfs", "-no-progress", "-dest", root, filepath.Join(t.image, "slot-"+t.version+".squashfs")); err != nil {
		return "", err
	}
	for path, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), mode); err != nil {
			return "", err
		}
	}
	release := filepath.Join(root, "usr/lib/os-release")
	text, err := os.ReadFile(release)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(release, bytes.ReplaceAll(text, []byte(t.version), []byte(version)), 0o644); err != nil {
		return "", err
	}
	_ = os.Remove(slot)
	err = execute("mksquashfs", root, slot, "-comp", "gzip", "-Xcompression-level", "1", "-noappend", "-quiet", "-no-progress")
	if err != nil {
		return "", err
	}
	return filepath.Join(t.image, "edgewise-"+version+".raucb"), execute("configs/image/bundle.sh", version, t.keys, t.image)
}

// stick plugs a stick with a bundle in, waits until the console has said one of the texts again, and takes the stick
// out.
func (t *trial) stick(bundle string, texts ...string) (string, error) {
	return t.stickWith(map[string]string{"edgewise.raucb": bundle}, texts...)
}

// stickWith does so with files by the names that they have on the stick.
func (t *trial) stickWith(files map[string]string, texts ...string) (string, error) {
	path := t.machine.file("stick")
	_ = os.Remove(path)
	commands := [][]string{{"truncate", "-s", "400M", path}, {"mkfs.vfat", "-n", "EDGEWISE_UP", path}}
	for name, file := range files {
		commands = append(commands, []string{"mcopy", "-i", path, file, "::" + name})
	}
	for _, command := range commands {
		if err := execute(command...); err != nil {
			return "", err
		}
	}
	before := t.machine.read()
	if err := t.machine.plug(path); err != nil {
		return "", err
	}
	var after string
	err := await(t.patience, fmt.Sprintf("the console says one of %q", texts), func() (bool, error) {
		after = t.machine.read()[len(before):]
		return slices.ContainsFunc(texts, func(text string) bool {
			_, rest, said := strings.Cut(after, text)
			return said && strings.Contains(rest, "\n")
		}), nil
	})
	if err != nil {
		return "", err
	}
	return after, t.machine.unplug()
}

// bundled makes a bundle of the image's slot under another version.
func (t *trial) bundled(version, keys, variable string) (string, error) {
	from, to := filepath.Join(t.image, "slot-"+t.version+".squashfs"), filepath.Join(t.image, "slot-"+version+".squashfs")
	_ = os.Remove(to)
	if err := os.Link(from, to); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(to) }()
	command := []string{"env", "configs/image/bundle.sh", version, keys, t.image}
	if variable != "" {
		command = []string{"env", variable, "configs/image/bundle.sh", version, keys, t.image}
	}
	return filepath.Join(t.image, "edgewise-"+version+".raucb"), execute(command...)
}

// foreign makes a bundle that somebody else has signed, with keys of their own.
func (t *trial) foreign() (string, error) {
	keys := filepath.Join(t.dir, "stranger")
	if err := execute("configs/image/keys.sh", keys); err != nil {
		return "", err
	}
	return t.bundled("9.0.1", keys, "")
}

// spoiled copies the good bundle and damages it.
func (t *trial) spoiled(name string, damage func(path string) error) (string, error) {
	path := t.machine.file(name + ".raucb")
	if err := execute("cp", filepath.Join(t.image, "edgewise-"+t.newer+".raucb"), path); err != nil {
		return "", err
	}
	return path, damage(path)
}

func flip(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = f.WriteAt([]byte("these bytes are not what was signed"), 100<<20)
	return err
}

func truncate(path string) error { return os.Truncate(path, 150<<20) }
