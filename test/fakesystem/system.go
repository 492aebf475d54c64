// Package fakesystem stands in for dpkg, systemd and the boot menu, for tests of what changes a system on a machine
// that is not to be changed. A package is an ar archive's first bytes with a Package as JSON behind them.
package fakesystem

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
)

// Package is what a file must hold to be a Debian package here.
type Package struct {
	Name, Version, Arch string
	Fails               bool // dpkg refuses it
	Dies                bool // the appliance does not stay up with it
}

const magic = "!<arch>\n"

// Edgewise is a package of the appliance that works.
func Edgewise(version string) Package {
	return Package{"edgewise", version, runtime.GOARCH, false, false}
}

// Bytes returns the package as the content of a file.
func (p Package) Bytes() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return append([]byte(magic), text...)
}

// System is a machine with the appliance on it.
type System struct {
	mu        sync.Mutex // guards what follows
	installed Package
	commands  []string // that were run and change something
	boots     string   // what journalctl lists
	journal   map[string]string
	held      chan struct{} // journalctl answers once it is closed
}

// New makes a machine with a version of the appliance.
func New(version string) *System {
	s := &System{installed: Edgewise(version), boots: "[]", journal: map[string]string{}, held: make(chan struct{})}
	close(s.held)
	return s
}

// Installed is the version that is installed.
func (s *System) Installed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installed.Version
}

// Journal sets what the machine remembers of its starts: the list as journalctl prints it, and the log of each by its
// id.
func (s *System) Journal(boots string, logs map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boots, s.journal = boots, logs
}

// HoldJournal has journalctl answer nobody until release is called.
func (s *System) HoldJournal() (release func()) {
	held := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	return func() { close(held) }
}

// awaitJournal waits until journalctl answers.
func (s *System) awaitJournal() {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	<-held
}

// Commands returns what was run and changes something.
func (s *System) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// Ran tells whether a command was run that begins so.
func (s *System) Ran(prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.commands, func(c string) bool { return strings.HasPrefix(c, prefix) })
}

func read(path string) (Package, error) {
	var p Package
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	rest, ok := strings.CutPrefix(string(text), magic)
	if !ok || json.Unmarshal([]byte(rest), &p) != nil {
		return p, edgewise.Errorf("dpkg-deb", edgewise.Internal, "dpkg-deb: error: '%s' is not a Debian format archive", path)
	}
	return p, nil
}

// Run is what the machine does when a program is run.
func (s *System) Run(_ context.Context, name string, arguments ...string) ([]byte, error) {
	if name == "journalctl" {
		s.awaitJournal()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := ""
	if len(arguments) > 0 {
		last = arguments[len(arguments)-1]
	}
	switch {
	case name == "dpkg-query" && arguments[0] == "--show":
		return []byte(s.installed.Version), nil
	case name == "dpkg-query" && arguments[0] == "--status":
		return []byte("Package: edgewise\nStatus: install ok installed\nVersion: " + s.installed.Version +
			"\nConffiles:\n /etc/x 00\nDescription: x\n"), nil
	case name == "dpkg-query":
		return nil, nil // no files, no scripts
	case name == "dpkg-deb" && arguments[0] == "--show":
		p, err := read(last)
		return []byte(p.Name + " " + p.Version + " " + p.Arch), err
	case name == "dpkg-deb": // packs what is installed
		return nil, os.WriteFile(last, s.installed.Bytes(), 0o600)
	case name == "dpkg":
		return s.install(last)
	case name == "systemctl" && arguments[0] == "show":
		if s.installed.Dies {
			return []byte("ActiveState=activating\nMainPID=0\n"), nil
		}
		return []byte("ActiveState=active\nMainPID=1\n"), nil
	case name == "journalctl" && arguments[0] == "--list-boots":
		return []byte(s.boots), nil
	case name == "journalctl":
		for boot, text := range s.journal {
			if slices.Contains(arguments, "--boot="+boot) {
				return []byte(text), nil
			}
		}
		return []byte("the appliance's last words"), nil
	case name == "systemd-run" || name == "systemctl" || name == "grub-editenv":
		s.commands = append(s.commands, name+" "+strings.Join(arguments, " "))
		return nil, nil
	}
	return nil, fmt.Errorf("no program %s", name)
}

func (s *System) install(path string) ([]byte, error) {
	p, err := read(path)
	if err != nil {
		return nil, err
	}
	s.commands = append(s.commands, "dpkg "+p.Version)
	if p.Fails {
		return nil, fmt.Errorf("dpkg: dependency problems prevent configuration of edgewise")
	}
	s.installed = p
	return nil, nil
}

// Key makes a key of a release, puts the public half into a folder and returns what signs with it.
func Key(t testing.TB, folder string) (sign func(content []byte) string) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if folder != "" {
		if err := os.WriteFile(folder+"/release.pub", text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(content []byte) string {
		hashed := minisign.NewReader(strings.NewReader(string(content)))
		if _, err := hashed.Read(make([]byte, len(content)+1)); err != nil && len(content) == 0 {
			t.Fatal(err)
		}
		return string(hashed.Sign(private))
	}
}
