package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// disk is a file that is a disk of the box, while no machine runs on it.
type disk string

// fresh makes the disk of a box that was just flashed: the image on a disk of 4 GiB.
func (t *trial) fresh(to string) error {
	err := disk(filepath.Join(t.image, "edgewise-"+t.version+".img")).copy(to)
	if err == nil {
		err = os.Truncate(to, 4<<30)
	}
	if err != nil || t.words == "" {
		return err
	}
	return disk(to).say(t.words)
}

// say adds words to those that GRUB gives the kernel.
func (d disk) say(words string) error {
	menu := string(d) + ".cfg"
	if err := execute("mcopy", "-o", "-i", string(d)+"@@1M", "::EFI/debian/grub.cfg", menu); err != nil {
		return err
	}
	text, err := os.ReadFile(menu)
	if err != nil {
		return err
	}
	if err := os.WriteFile(menu, bytes.Replace(text, []byte(" quiet\""), []byte(" quiet "+words+"\""), 1), 0o644); err != nil {
		return err
	}
	return d.place(menu, "EFI/debian/grub.cfg")
}

func (d disk) copy(to string) error { return execute("cp", "--sparse=always", string(d), to) }

// environment reads GRUB's variables off the disk.
func (d disk) environment() (map[string]string, error) {
	out, err := exec.CommandContext(context.Background(), "mtype", "-i", string(d)+"@@1M", "::EFI/debian/grubenv").Output()
	if err != nil {
		return nil, fmt.Errorf("GRUB's variables: %w", err)
	}
	if !strings.HasPrefix(string(out), "# GRUB Environment Block\n") || len(out) != 1024 {
		return nil, fmt.Errorf("GRUB's variables are damaged: %d bytes, %.40q", len(out), out)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			values[name] = value
		}
	}
	return values, nil
}

// place puts a file onto the boot partition.
func (d disk) place(file, name string) error {
	return execute("mcopy", "-o", "-i", string(d)+"@@1M", file, "::"+name)
}

// partition is where a partition is on the disk, in bytes.
func (d disk) partition(number int) (at, size int64, err error) {
	out, err := exec.CommandContext(context.Background(), "sgdisk", "--info="+strconv.Itoa(number), string(d)).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("sgdisk: %w: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		var to *int64
		switch {
		case strings.HasPrefix(line, "First sector: "):
			to = &at
		case strings.HasPrefix(line, "Partition size: "):
			to = &size
		default:
			continue
		}
		sectors, err := strconv.ParseInt(strings.Fields(line)[2], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("sgdisk: %s", line)
		}
		*to = sectors * 512
	}
	if size == 0 {
		return 0, 0, fmt.Errorf("there is no partition %d on %s: %s", number, d, out)
	}
	return at, size, nil
}

const dataPartition = 4

// data checks the file system of the data partition as a start of the box does, mounts it, does something with it and
// unmounts it.
func (d disk) data(at string, do func(root string) error) error {
	first, size, err := d.partition(dataPartition)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(context.Background(), "losetup", "--find", "--show", "--offset",
		strconv.FormatInt(first, 10), "--sizelimit", strconv.FormatInt(size, 10), string(d)).Output()
	if err != nil {
		return fmt.Errorf("losetup: %w", err)
	}
	device := strings.TrimSpace(string(out))
	defer func() { _ = execute("losetup", "--detach", device) }()
	if out, err := exec.CommandContext(context.Background(), "e2fsck", "-p", device).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() > 1 { // 1: mended without a person
			return fmt.Errorf("the data's file system wants a person: %w: %s", err, out)
		}
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := execute("mount", "-t", "ext4", "-o", "nodev,nosuid", device, at); err != nil {
		return err
	}
	defer func() { _ = execute("umount", at) }()
	return do(at)
}

// journal returns what the box's journal holds of a unit or, without one, of all.
func (d disk) journal(at, unit string) (string, error) {
	var text string
	err := d.data(at, func(root string) error {
		args := []string{"--directory", filepath.Join(root, "var/log/journal"), "--no-pager", "--quiet", "--output", "short-monotonic"}
		if unit != "" {
			args = append(args, "--unit", unit)
		}
		out, err := exec.CommandContext(context.Background(), "journalctl", args...).Output()
		text = string(out)
		return err
	})
	return text, err
}

func execute(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}
