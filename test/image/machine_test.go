package image

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// machine is a PC or an arm64 board that QEMU plays, without KVM: 2 cores, 2 GiB, one disk, UEFI, a hardware watchdog.
type machine struct {
	arch    string // amd64 or arm64
	dir     string // console logs, screenshots, monitor
	name    string // of the step: begins the names of its files
	disk    string
	port    int // of this machine, for the box's 443
	boots   int
	old     int // characters of the console that are of before: see forget
	process *exec.Cmd
	conditions
}

// conditions are what differs from a common PC.
type conditions struct {
	log     string // file of blklogwrites; empty: the disk's writes are not logged
	clock   string // of the machine's battery, as -rtc base= takes it; empty: right
	offline bool   // there is no network device
	secure  bool   // Secure Boot is on, with Microsoft's keys
}

// start switches the machine on. The console of each run has a file of its own.
func (m *machine) start() error {
	m.boots++
	m.old = 0
	if m.boots == 1 {
		if err := execute("cp", m.kind().vars, m.file("vars")); err != nil {
			return err
		}
	}
	m.process = exec.CommandContext(context.Background(), m.kind().emulator, m.arguments()...)
	m.process.Stderr = os.Stderr
	return m.process.Start()
}

func (m *machine) arguments() []string {
	args := append(slices.Clone(m.kind().arguments),
		"-accel", "tcg,thread=multi,tb-size=512", "-smp", "2", "-m", "2048",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+m.kind().firmware, "-drive", "if=pflash,format=raw,unit=1,file="+m.file("vars"),
		"-device", "i6300esb", "-watchdog-action", "reset", "-device", "virtio-rng-pci", "-device", "qemu-xhci,id=usb", "-display", "none",
		"-serial", "file:"+m.console(), "-monitor", "unix:"+m.file("monitor")+",server,nowait",
	)
	// discard: systemd-repart discards free space, and the disk must obey, as an SSD does
	args = append(args, "-blockdev", "driver=file,node-name=file,discard=unmap,filename="+m.disk, "-blockdev",
		"driver=raw,node-name=disk,discard=unmap,file=file")
	drive := "disk"
	if m.log != "" {
		args = append(args, "-blockdev", "driver=file,node-name=log,filename="+m.log, "-blockdev",
			"driver=blklogwrites,node-name=logged,discard=unmap,file=disk,log=log")
		drive = "logged"
	}
	args = append(args, "-device", "virtio-blk-pci,bootindex=1,drive="+drive)
	if m.clock != "" {
		args = append(args, "-rtc", "base="+m.clock)
	}
	if m.offline {
		return append(args, "-nic", "none")
	}
	return append(args, "-netdev", m.net(), "-device", "virtio-net-pci,netdev=net,romfile=")
}

// net is the network behind a network device.
func (m *machine) net() string {
	return fmt.Sprintf("user,id=net,hostfwd=tcp:127.0.0.1:%d-:443", m.port)
}

// file is the path of one of the machine's files.
func (m *machine) file(kind string) string { return filepath.Join(m.dir, m.name+"."+kind) }

// console is the file of the serial console of the last start.
func (m *machine) console() string { return m.file(fmt.Sprintf("console-%d.txt", m.boots)) }

// cut takes the power away.
func (m *machine) cut() {
	if m.process != nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
		m.process = nil
	}
}

// off presses the power button and waits until the machine has switched itself off.
func (m *machine) off(within time.Duration) error {
	if err := m.monitor("system_powerdown"); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.process.Wait() }()
	select {
	case err := <-ended:
		m.process = nil
		return err
	case <-time.After(within):
		_ = m.process.Process.Kill()
		<-ended
		m.process = nil
		return fmt.Errorf("the machine has not switched itself off within %v: see %s", within, m.console())
	}
}

// monitor gives QEMU's monitor a command.
func (m *machine) monitor(command string) error {
	conn, err := net.Dial("unix", m.file("monitor"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return err
	}
	if _, err := answer(conn); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return err
	}
	_, err = answer(conn)
	return err
}

// answer reads to the monitor's next prompt.
func answer(conn net.Conn) (string, error) {
	var all []byte
	buffer := make([]byte, 4096)
	for !bytes.HasSuffix(all, []byte("(qemu) ")) {
		n, err := conn.Read(buffer)
		if err != nil {
			return "", err
		}
		all = append(all, buffer[:n]...)
	}
	return string(all), nil
}

// screenshot keeps what the screen shows, as a picture.
func (m *machine) screenshot(name string) error {
	path := m.file(name + ".ppm")
	if err := m.monitor("screendump " + path); err != nil {
		return err
	}
	picture, err := exec.CommandContext(context.Background(), "pnmtopng", path).Output()
	if err != nil {
		return err
	}
	return os.WriteFile(m.file(name+".png"), picture, 0o644)
}

// says waits until the console has said a text in this start or since forget, and returns all that it has said since.
func (m *machine) says(text string, within time.Duration) (string, error) {
	return m.matches(regexp.MustCompile(regexp.QuoteMeta(text)), within)
}

// matches waits for what matches, as says does.
func (m *machine) matches(text *regexp.Regexp, within time.Duration) (string, error) {
	var all string
	err := await(within, fmt.Sprintf("the console, which is in %s, says %q", m.console(), text), func() (bool, error) {
		all = m.read()
		return text.MatchString(all), nil
	})
	return all, err
}

// read returns what the console of this start has said so far, without what was forgotten.
func (m *machine) read() string {
	all, err := os.ReadFile(m.console())
	if err != nil {
		return ""
	}
	text := strings.ReplaceAll(string(all), "\r", "")
	return text[min(m.old, len(text)):]
}

// forget lets says and read begin behind what the console has said so far: the machine is about to start again by
// itself.
func (m *machine) forget() { m.old += len(m.read()) }

// plug puts a stick into the running machine.
func (m *machine) plug(path string) error {
	if err := m.monitor("drive_add 0 if=none,id=stick,format=raw,readonly=on,file=" + path); err != nil {
		return err
	}
	return m.monitor("device_add usb-storage,id=plugged,drive=stick,bus=usb.0")
}

// unplug takes it out.
func (m *machine) unplug() error { return m.monitor("device_del plugged") }
