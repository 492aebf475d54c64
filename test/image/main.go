// Command image boots the disk image under QEMU and does with it what a person does: claims it, uploads a model, infers,
// switches it off and on, updates it from a stick, offers it updates that it must refuse, resets it. It prints what each
// case took and fails when one fails. Consoles and screenshots are kept below the image's folder. KVM is not used, so that the
// times of two machines say the same; they are many times those of hardware.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of waits; a busy machine without KVM is up to 20 times slower than hardware.
const (
	bootTime   = 10 * time.Minute
	updateTime = 10 * time.Minute
)

type options struct {
	image, keys, version, newer string
	port                        int
}

// trial is the state that cases hand on: they are steps of one life of one box.
type trial struct {
	options
	machine *machine
	box     *box
}

type step struct {
	name string
	do   func(*trial) error
}

var steps = []step{
	{"boot", (*trial).boot},
	{"claim", (*trial).claim},
	{"model", (*trial).model},
	{"good", (*trial).good},
	{"again", (*trial).again},
	{"refused", (*trial).refused},
	{"update", (*trial).update},
	{"reset", (*trial).reset},
}

func main() {
	var o options
	flag.StringVar(&o.image, "image", "dist/image", "folder of the image and its bundles")
	flag.StringVar(&o.keys, "keys", ".cache/image/keys", "folder of the keys that the bundles are signed with")
	flag.StringVar(&o.version, "version", "", "version of the image")
	flag.StringVar(&o.newer, "newer", "", "version of the bundle that it is updated to")
	flag.IntVar(&o.port, "port", 18443, "port of this machine that leads to the page")
	only := flag.String("only", "", "the last step to do; empty: all of them")
	flag.Parse()
	if err := run(o, *only); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(o options, last string) error {
	if last != "" && !slices.ContainsFunc(steps, func(s step) bool { return s.name == last }) {
		return fmt.Errorf("there is no step %q", last)
	}
	t := &trial{options: o}
	if err := t.prepare(); err != nil {
		return err
	}
	defer func() { t.machine.cut() }()
	for _, s := range steps {
		begun := time.Now()
		err := s.do(t)
		fmt.Printf("%-10s %6.1f s  %s\n", s.name, time.Since(begun).Seconds(), verdict(err))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if s.name == last {
			break
		}
	}
	return nil
}

func verdict(err error) string {
	if err != nil {
		return "FAILED"
	}
	return "ok"
}

// prepare makes the disk of the machine: the image on a disk of 4 GiB.
func (t *trial) prepare() error {
	dir, err := filepath.Abs(filepath.Join(t.image, "test"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t.machine = &machine{dir: dir, disk: filepath.Join(dir, "disk.img"), port: t.port}
	for _, command := range [][]string{
		{"cp", "--sparse=always", filepath.Join(t.image, "edgewise-"+t.version+".img"), t.machine.disk},
		{"truncate", "-s", "4G", t.machine.disk},
		{"cp", "/usr/share/OVMF/OVMF_VARS_4M.fd", filepath.Join(dir, "vars.fd")},
	} {
		if err := execute(command...); err != nil {
			return err
		}
	}
	t.box, err = newBox(t.port)
	return err
}

func execute(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}
