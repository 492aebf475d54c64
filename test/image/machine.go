package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// machine is a PC that QEMU plays, without KVM: 2 cores, 2 GiB, one disk, UEFI, a hardware watchdog.
type machine struct {
	dir     string // console logs, screenshots, monitor
	disk    string
	port    int // of this machine, for the box's 443
	boots   int
	process *exec.Cmd
}

const firmware = "/usr/share/OVMF/OVMF_CODE_4M.fd"

// start switches the machine on. The console of each run has a file of its own.
func (m *machine) start() error {
	m.boots++
	args := []string{
		"-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-smp", "2", "-m", "2048",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + firmware,
		"-drive", "if=pflash,format=raw,unit=1,file=" + filepath.Join(m.dir, "vars.fd"),
		// discard: systemd-repart discards free space, and the disk must obey, as an SSD does
		"-drive", "file=" + m.disk + ",if=virtio,format=raw,cache=writeback,discard=unmap",
		"-netdev", fmt.Sprintf("user,id=n,hostfwd=tcp:127.0.0.1:%d-:443", m.port), "-device", "virtio-net-pci,netdev=n,romfile=",
		"-device", "i6300esb", "-watchdog-action", "reset", "-device", "virtio-rng-pci", "-device", "qemu-xhci,id=usb", "-vga", "std", "-display", "none",
		"-serial", "file:" + m.console(), "-monitor", "unix:" + filepath.Join(m.dir, "monitor") + ",server,nowait",
	}
	m.process = exec.CommandContext(context.Background(), "qemu-system-x86_64", args...)
	m.process.Stderr = os.Stderr
	return m.process.Start()
}

// console is the file of the serial console of the last start.
func (m *machine) console() string {
	return filepath.Join(m.dir, fmt.Sprintf("console-%d.log", m.boots))
}

// cut takes the power away.
func (m *machine) cut() {
	if m.process != nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
		m.process = nil
	}
}

// monitor gives QEMU's monitor a command.
func (m *machine) monitor(command string) error {
	conn, err := net.Dial("unix", filepath.Join(m.dir, "monitor"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	if _, err := conn.Read(buffer); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return err
	}
	var answer []byte
	for !bytes.HasSuffix(answer, []byte("(qemu) ")) {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		answer = append(answer, buffer[:n]...)
	}
	return nil
}

// screenshot keeps what the screen shows, as a picture.
func (m *machine) screenshot(name string) error {
	path := filepath.Join(m.dir, name+".ppm")
	if err := m.monitor("screendump " + path); err != nil {
		return err
	}
	picture, err := exec.CommandContext(context.Background(), "pnmtopng", path).Output()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, name+".png"), picture, 0o644)
}

// says waits until the console has said a text since mark, and returns all of it.
func (m *machine) says(text string, within time.Duration) (string, error) {
	end := time.Now().Add(within)
	for {
		all, err := os.ReadFile(m.console())
		if err == nil && strings.Contains(string(all), text) {
			return strings.ReplaceAll(string(all), "\r", ""), nil
		}
		if time.Now().After(end) {
			return string(all), fmt.Errorf("the console has not said %q within %v: see %s", text, within, m.console())
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// environment reads GRUB's variables off the disk.
func (m *machine) environment() (string, error) {
	out, err := exec.CommandContext(context.Background(), "mtype", "-i", m.disk+"@@1M", "::EFI/debian/grubenv").Output()
	return string(out), err
}

// read returns what the console of this start has said so far.
func (m *machine) read() string {
	all, err := os.ReadFile(m.console())
	if err != nil {
		return ""
	}
	return string(all)
}

// plug puts a stick into the running machine.
func (m *machine) plug(path string) error {
	if err := m.monitor("drive_add 0 if=none,id=stick,format=raw,readonly=on,file=" + path); err != nil {
		return err
	}
	return m.monitor("device_add usb-storage,id=plugged,drive=stick,bus=usb.0")
}

// unplug takes it out.
func (m *machine) unplug() error { return m.monitor("device_del plugged") }
