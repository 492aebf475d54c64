// Package image boots the disk image under QEMU and does with it what a person does: claims it, uploads a model,
// infers, switches it off and on, updates it from a stick, offers it updates that it must refuse, one that never works
// and one in which a model ends the box, cuts its power, resets it, starts it without a network and with a wrong clock.
// It prints what each step took and fails when one fails. Results, consoles and screenshots are kept below the image's
// folder. KVM is not used, so that the times of two machines say the same; they are many times those of hardware. Root
// is needed where a disk is looked into.
package image

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

type options struct {
	image, keys, version, newer string
	drivers                     string
	arch                        string
	port                        int
	count, boots                int
	bootIn                      string
	patience                    time.Duration
	words                       string
	only                        string
}

// trial is the state that steps hand on: they are steps of one life of one box.
type trial struct {
	options
	dir     string
	name    string // of the step
	machine *machine
	box     *box
	record  *recording // nil: nothing is logged
}

// step is a part of the test. A step whose life is "" goes on with the machine of the step before, or, when it is the
// first, with a copy of the disk of a box that has been claimed; a step of another life begins with a disk of its own.
type step struct {
	name string
	life string
	do   func(*trial) error
}

const (
	flashed  = "flashed"  // the disk is the image
	recorded = "recorded" // and all that is written to it is logged
	again    = "again"    // as "", but the first of these steps goes on where a test that was cut off has left the recorded life
	claimed  = "claimed"  // the disk is the one that the step keep has kept
)

const firstRecorded = "boot"

var steps = []step{
	{"inspect", flashed, (*trial).inspect},
	{firstRecorded, recorded, (*trial).boot},
	{"claim", "", (*trial).claim},
	{"model", "", (*trial).model},
	{"good", "", (*trial).good},
	{"upload", "", (*trial).upload},
	{"driver", "", (*trial).driver},
	{"refused", "", (*trial).refused},
	{"update", "", (*trial).update},
	{"cuts", again, (*trial).cuts},
	{"started", again, (*trial).started},
	{"keep", "", (*trial).keep},
	{"fallback", "", (*trial).fallback},
	{"poison", "", (*trial).poison},
	{"restarts", claimed, (*trial).restarts},
	{"reset", claimed, (*trial).reset},
	{"offline", flashed, (*trial).offline},
	{"clock", flashed, (*trial).clock},
	{"secure", flashed, (*trial).secure},
	{"forged", flashed, (*trial).forged},
	{"graphics", flashed, (*trial).graphics},
	{"refusals", "", (*trial).refusals},
	{"pair", "", (*trial).pair},
}

// flags are what "make image-test" gives behind -args.
func flags() *options {
	o := &options{}
	flag.StringVar(&o.image, "image", "", "folder of the image and its bundles, as dist/image")
	flag.StringVar(&o.arch, "arch", "amd64", "what the image is for: amd64 or arm64")
	flag.StringVar(&o.keys, "keys", ".cache/image/keys", "folder of the keys that the bundles are signed with")
	flag.StringVar(&o.drivers, "drivers", "dist/drivers", "folder of the driver extensions")
	flag.StringVar(&o.version, "version", "", "version of the image")
	flag.StringVar(&o.newer, "newer", "", "version of the bundle that it is updated to")
	flag.IntVar(&o.port, "port", 18443, "port of this machine that leads to the page")
	flag.IntVar(&o.count, "cuts", 100, "cuts of the power at random moments")
	flag.IntVar(&o.boots, "boots", 20, "how many of them are booted afterwards, as many in each step of boot-in; the others are looked into")
	flag.StringVar(&o.bootIn, "boot-in", "upload,update", "steps whose cuts are booted, with commas")
	flag.DurationVar(&o.patience, "patience", 10*time.Minute, "the longest wait for a start or an installation; raise it on a busy machine")
	flag.StringVar(&o.words, "words", "", "more words for the kernel, such as clocksource=hpet on a machine that stops QEMU now and then")
	flag.StringVar(&o.only, "only", "", "steps to do, with commas; empty: all of them")
	return o
}

var given = flags()

func TestImage(t *testing.T) {
	if given.image == "" {
		t.Skip("no -image is given: make image-test makes an image and boots it")
	}
	t.Chdir("../..") // paths are those of the repository
	if err := run(*given); err != nil {
		t.Fatal(err)
	}
}

func run(o options) error {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	t := &trial{options: o}
	if t.dir, err = filepath.Abs(filepath.Join(o.image, "test")); err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	defer func() {
		if t.machine != nil {
			t.machine.cut() // a disk that a step has failed with stays, for whoever looks
		}
	}()
	for _, s := range chosen {
		begun := time.Now()
		t.name = s.name
		err := t.prepare(s)
		if err == nil {
			err = s.do(t)
		}
		if err == nil && t.machine != nil {
			err = t.mark(s.name)
		}
		t.say("%-10s %7.1f s  %s", s.name, time.Since(begun).Seconds(), verdict(err))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	t.end()
	return nil
}

func choose(only string) ([]step, error) {
	if only == "" {
		return steps, nil
	}
	var chosen []step
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no step %q", name)
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

func verdict(err error) string {
	if err != nil {
		return "FAILED: " + err.Error()
	}
	return "ok"
}

// say prints a line and keeps it in the file of results: a test that is cut off has lost nothing.
func (t *trial) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...) + "\n"
	fmt.Print(line)
	f, err := os.OpenFile(filepath.Join(t.dir, "results.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	_, _ = f.WriteString(time.Now().UTC().Format("15:04:05 ") + line)
	_ = f.Close()
}

// kept is the disk of a box that has been claimed and shut down.
func (t *trial) kept() disk { return disk(filepath.Join(t.dir, "claimed.img")) }

// prepare makes the machine of a step, unless it goes on with that of the step before.
func (t *trial) prepare(s step) error {
	if (s.life == "" || s.life == again) && t.machine != nil {
		return nil
	}
	t.end()
	if s.life == again {
		return t.resume()
	}
	if err := t.make(s.name, conditions{}); err != nil {
		return err
	}
	switch s.life {
	case flashed:
		return t.fresh(t.machine.disk)
	case recorded:
		if err := t.fresh(t.machine.disk); err != nil {
			return err
		}
		return t.begin()
	}
	return t.kept().copy(t.machine.disk)
}

// make makes a machine that is not running and has no disk yet.
func (t *trial) make(name string, c conditions) (err error) {
	t.machine = &machine{arch: t.arch, dir: t.dir, name: name, disk: filepath.Join(t.dir, name+".img"), port: t.port, conditions: c}
	t.box, err = newBox(t.port)
	return err
}

// end switches the machine off and removes its disk.
func (t *trial) end() {
	if t.machine != nil {
		t.machine.cut()
		_ = os.Remove(t.machine.disk)
		t.machine, t.record = nil, nil
	}
}

// running starts the machine when it is off, and logs in.
func (t *trial) running() error {
	if t.machine.process != nil {
		return nil
	}
	return t.up()
}

// up switches the machine on and logs in once the page answers.
func (t *trial) up() error { return inOrder(t.on, t.login) }

func (t *trial) login() error {
	return t.box.enter("/api/v1/session", map[string]string{"user": "admin", "password": password})
}

// on switches the machine on and waits for the page.
func (t *trial) on() error {
	if err := t.machine.start(); err != nil {
		return err
	}
	took, err := t.box.answers(t.patience)
	if err != nil {
		return errors.Join(err, t.machine.screenshot("no-page"))
	}
	t.say("           power-on to HTTP 200: %.1f s", took.Seconds())
	return nil
}

// inOrder does steps up to the first that fails, and returns its error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// await tries once a second until try is done, and returns its error then. The error of a try that is not done is only
// told when the time is over.
func await(within time.Duration, what string, try func() (done bool, err error)) error {
	for end := time.Now().Add(within); ; time.Sleep(time.Second) {
		done, err := try()
		if done {
			return err
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("%s: not within %v", what, within), err)
		}
	}
}
