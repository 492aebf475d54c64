package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// offer makes a bundle and returns its path.
type offer struct {
	name string
	make func(t *trial) (string, error)
	want string // in the refusal on the console
}

var offers = []offer{
	{"flipped bytes", func(t *trial) (string, error) { return t.spoiled("flipped", flip) }, "refused"},
	{"cut off", func(t *trial) (string, error) { return t.spoiled("truncated", truncate) }, "refused"},
	{"signed by a stranger", (*trial).foreign, "refused"},
	{"for another kind of box", func(t *trial) (string, error) {
		return t.bundled("9.0.0", t.keys, "COMPATIBLE=another-box")
	}, "ompatib"},
	{"older", func(t *trial) (string, error) { return t.bundled("0.0.1", t.keys, "") }, "refused"},
}

// refused: bundles that must not be installed are not, and the box goes on.
func (t *trial) refused() error {
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
		said := console[strings.LastIndex(console, "Update: "):]
		if !strings.Contains(said, "Update: refused") || !strings.Contains(said, o.want) {
			return fmt.Errorf("an update that is %s: the box says %q", o.name, said)
		}
		fmt.Printf("           %s, %.1f s: %.200s\n", o.name, time.Since(begun).Seconds(), strings.TrimSpace(said))
	}
	return t.box.voice("speech")
}

// update: a good bundle is installed from a stick, the next start takes the other slot, and the data are there.
func (t *trial) update() error {
	begun := time.Now()
	console, err := t.stick(filepath.Join(t.image, "edgewise-"+t.newer+".raucb"), "Update: installed", "Update: refused")
	if err != nil {
		return err
	}
	if said := console[strings.LastIndex(console, "Update: "):]; !strings.HasPrefix(said, "Update: installed") {
		return fmt.Errorf("the box says %q", said)
	}
	fmt.Printf("           installation: %.1f s\n", time.Since(begun).Seconds())
	if err := t.restart(); err != nil {
		return err
	}
	if _, err := t.machine.says("Edgewise "+t.newer+", slot B", time.Minute); err != nil {
		return err
	}
	return t.marked("B_TRY=0")
}

// reset: a file on the boot partition erases what users have stored; the system stays.
func (t *trial) reset() error {
	t.machine.cut()
	if err := execute("mcopy", "-o", "-i", t.machine.disk+"@@1M", "configs/demo/LICENSES.md", "::factory-reset"); err != nil {
		return err
	}
	if err := t.machine.start(); err != nil {
		return err
	}
	if _, err := t.box.answers(bootTime); err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	var setup struct{ Claimed bool }
	if err := t.box.want(http.MethodGet, "/api/v1/setup", "", nil, &setup); err != nil {
		return err
	}
	if setup.Claimed {
		return errors.New("the box is claimed after a factory reset")
	}
	return t.machine.screenshot("after-reset")
}

// stick plugs a stick with a bundle in, waits until the console has said one of the texts anew, and takes the stick out.
func (t *trial) stick(bundle string, texts ...string) (string, error) {
	path := filepath.Join(t.machine.dir, "stick.img")
	_ = os.Remove(path)
	for _, command := range [][]string{
		{"truncate", "-s", "400M", path},
		{"mkfs.vfat", "-n", "EDGEWISE_UP", path},
		{"mcopy", "-i", path, bundle, "::edgewise.raucb"},
	} {
		if err := execute(command...); err != nil {
			return "", err
		}
	}
	before := t.machine.read()
	if err := t.machine.plug(path); err != nil {
		return "", err
	}
	end := time.Now().Add(updateTime)
	for {
		after := t.machine.read()[len(before):]
		for _, text := range texts {
			if i := strings.Index(after, text); i >= 0 && strings.Contains(after[i:], "\n") {
				return after, t.machine.unplug()
			}
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("the console has said none of %q within %v", texts, updateTime)
		}
		time.Sleep(time.Second)
	}
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
	keys := filepath.Join(t.machine.dir, "stranger")
	if err := execute("configs/image/keys.sh", keys); err != nil {
		return "", err
	}
	return t.bundled("9.0.1", keys, "")
}

// spoiled copies the good bundle and damages it.
func (t *trial) spoiled(name string, damage func(path string) error) (string, error) {
	path := filepath.Join(t.machine.dir, name+".raucb")
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
