package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/host"
)

const (
	// MountFolder is where the extensions of this start are mounted, each in a folder of its name.
	MountFolder = "/run/edgewise-drivers"
	// EnvironmentFile in that folder sets the keys of the appliance's configuration that lead to them.
	EnvironmentFile = "environment"
	mountedFile     = "mounted.json"
	firmwareFolder  = "firmware"
	// maxTries is how many starts in a row may end while the modules of an extension are loaded.
	maxTries = 2
)

// Mounted is what became of a driver at this start.
type Mounted struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	File    string   `json:"file"`
	Mounted bool     `json:"mounted"`
	Vendors []string `json:"vendors,omitempty"` // of devices of this machine that it serves
	Reason  string   `json:"reason,omitempty"`  // why it is not mounted, or what went wrong beside that
}

// Machine is where extensions are mounted.
type Machine struct {
	Folder *Folder
	System System
	Mount  string // MountFolder
	Root   string // of /sys; "/" on a box
	Boot   string // the boot partition, whose extensions are installed first; empty: there is none
	// Run runs a program of the system.
	Run func(ctx context.Context, name string, arguments ...string) ([]byte, error)
	// Say tells what was done.
	Say func(text string)
}

// Start installs what the boot partition offers, mounts of each driver the preferred version that fits, loads its
// modules for the devices that there are, and writes the environment of the appliance. What is not mounted is told with
// its reason and stops nothing else. Errors: Internal, when what became of it cannot be written.
func (m *Machine) Start(ctx context.Context) error {
	const op = "driver.Start"
	if err := os.MkdirAll(filepath.Join(m.Mount, firmwareFolder), 0o755); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	list := m.takeFromBoot()
	s, err := m.Folder.State()
	if err != nil {
		return err
	}
	environment := map[string][]string{}
	for _, name := range s.names() {
		done, manifest := m.mountFirst(ctx, &s, name)
		list = append(list, done)
		if done.Mounted {
			m.environment(environment, manifest)
		}
	}
	return m.note(list, environment)
}

// names lists the drivers in the order of their first entries.
func (s *State) names() (list []string) {
	for _, e := range s.Entries {
		if !slices.Contains(list, e.Manifest.Name) {
			list = append(list, e.Manifest.Name)
		}
	}
	return list
}

// takeFromBoot installs the extensions of the boot partition that were not installed from there before.
func (m *Machine) takeFromBoot() (refused []Mounted) {
	if m.Boot == "" {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(m.Boot, "*.driver")) // the pattern is a good one
	for _, path := range files[:min(len(files), MaxDrivers)] {
		if err := m.takeFile(path); err != nil {
			m.Say(fmt.Sprintf("%s is not installed: %v", filepath.Base(path), err))
			refused = append(refused, Mounted{Name: filepath.Base(path), Reason: err.Error()})
		}
	}
	return refused
}

func (m *Machine) takeFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return edgewise.Errorf("driver.takeFile", edgewise.Internal, "%w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return edgewise.Errorf("driver.takeFile", edgewise.Internal, "%w", err)
	}
	if head, err := Read(file, info.Size()); err == nil {
		if s, err := m.Folder.State(); err != nil || slices.Contains(s.Imported, head.Manifest.SHA256) {
			return err
		}
	}
	e, err := m.Folder.Install(Offer{File: file, System: m.System, Imported: true})
	switch {
	case err == nil:
		m.Say(fmt.Sprintf("driver %s %s is installed from the boot partition", e.Manifest.Name, e.Manifest.Version))
	case edgewise.KindOf(err) == edgewise.Exists:
		return nil
	}
	return err
}

// mountFirst mounts the first version of a driver that fits and is whole. Without one it tells why the preferred one is
// not mounted.
func (m *Machine) mountFirst(ctx context.Context, s *State, name string) (Mounted, *Manifest) {
	var refused Mounted
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.Manifest.Name != name {
			continue
		}
		done := Mounted{Name: name, Version: e.Manifest.Version, File: e.File}
		err := m.mountable(e)
		if err == nil {
			err = m.mount(ctx, e)
		}
		if err == nil {
			done.Mounted = true
			done.Vendors, done.Reason = m.load(ctx, s, e)
			m.Say(fmt.Sprintf("driver %s %s is mounted", name, e.Manifest.Version))
			return done, &e.Manifest
		}
		m.Say(fmt.Sprintf("driver %s %s is not mounted: %v", name, e.Manifest.Version, err))
		done.Reason = err.Error()
		if refused.Name == "" {
			refused = done
		}
	}
	return refused, nil
}

// mountable returns nil when an extension fits, has not stopped the last starts, and its file is the one that was
// signed. Errors: Conflict, Denied, Corrupt, Internal.
func (m *Machine) mountable(e *Entry) error {
	const op = "driver.mountable"
	if err := e.Manifest.Fit(m.System); err != nil {
		return err
	}
	if e.Tries >= maxTries {
		return edgewise.Errorf(op, edgewise.Conflict, "the last %d starts ended while the modules of driver %s %s were loaded: "+
			"remove it, or install another version", e.Tries, e.Manifest.Name, e.Manifest.Version)
	}
	file, err := os.Open(m.Folder.at(e.File))
	if err != nil {
		return edgewise.Errorf(op, edgewise.Corrupt, "%w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	own, err := m.Folder.check(file, info.Size())
	if err != nil {
		return err
	}
	if own.SHA256 != e.Manifest.SHA256 {
		return edgewise.Errorf(op, edgewise.Corrupt, "%s is not the file that was installed", e.File)
	}
	e.Manifest = own // what was signed, not what was noted of it
	return e.Manifest.Fit(m.System)
}

// mount mounts a file that has been checked: only root writes to its folder.
func (m *Machine) mount(ctx context.Context, e *Entry) error {
	at := filepath.Join(m.Mount, e.Manifest.Name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return edgewise.Errorf("driver.mount", edgewise.Internal, "%w", err)
	}
	options := fmt.Sprintf("ro,nodev,nosuid,loop,offset=%d,sizelimit=%d", HeaderBytes, e.Manifest.Size)
	_, err := m.Run(ctx, "mount", "-t", "squashfs", "-o", options, m.Folder.at(e.File), at)
	return err
}

// load links the firmware of a mounted extension, and loads the modules for the devices of the machine. A start that
// ends while modules are loaded counts against the extension. It returns the vendors of these devices, and what went
// wrong.
func (m *Machine) load(ctx context.Context, s *State, e *Entry) (vendors []string, problem string) {
	var problems []string
	try := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	modules := []string{}
	for _, d := range e.Manifest.Devices {
		if m.has(d.Vendor) {
			vendors, modules = append(vendors, d.Vendor), append(modules, d.Modules...)
		}
	}
	changed := s.use(m.System.Slot, e)
	if len(modules) > 0 {
		e.Tries++
		changed = true
	}
	if changed {
		try(m.Folder.write(*s))
	}
	try(m.linkFirmware(&e.Manifest))
	for _, module := range modules {
		try(m.insert(ctx, &e.Manifest, module))
	}
	if setup := e.Manifest.Setup; len(setup) > 0 && len(modules) > 0 {
		_, err := m.Run(ctx, filepath.Join(m.Mount, e.Manifest.Name, setup[0]), setup[1:]...)
		try(err)
	}
	if e.Tries > 0 {
		e.Tries = 0
		try(m.Folder.write(*s))
	}
	return vendors, strings.Join(problems, "; ")
}

// has tells whether the machine has a device for graphics of a vendor.
func (m *Machine) has(vendor string) bool {
	return slices.ContainsFunc(host.Displays(m.Root), func(d host.Display) bool { return d.Vendor == vendor })
}

// use notes that a slot has mounted an extension. It tells whether that is news.
func (s *State) use(slot string, e *Entry) bool {
	if s.Used == nil {
		s.Used = map[string]map[string]string{}
	}
	if s.Used[slot] == nil {
		s.Used[slot] = map[string]string{}
	}
	was := s.Used[slot][e.Manifest.Name]
	s.Used[slot][e.Manifest.Name] = e.File
	return was != e.File
}

// insert loads a module of the slot by its name, or one of the extension by its file.
func (m *Machine) insert(ctx context.Context, manifest *Manifest, module string) error {
	var err error
	if strings.HasSuffix(module, ".ko") {
		_, err = m.Run(ctx, "insmod", filepath.Join(m.Mount, manifest.Name, module))
	} else {
		_, err = m.Run(ctx, "modprobe", module)
	}
	return err
}

// linkFirmware makes the kernel find the firmware of an extension, beside that of others.
func (m *Machine) linkFirmware(manifest *Manifest) error {
	const op = "driver.linkFirmware"
	if manifest.Firmware == "" {
		return nil
	}
	from, to := filepath.Join(m.Mount, manifest.Name, manifest.Firmware), filepath.Join(m.Mount, firmwareFolder)
	entries, err := os.ReadDir(from)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil && !os.IsExist(err) {
			return edgewise.Errorf(op, edgewise.Internal, "%w", err)
		}
	}
	searched := filepath.Join(m.Root, "sys/module/firmware_class/parameters/path")
	if err := os.WriteFile(searched, []byte(to), 0o644); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	return nil
}

// environment adds the keys that lead to an extension: Vulkan's manifests for the devices of the machine, those that
// compute on the processor where there is no such device.
func (m *Machine) environment(to map[string][]string, manifest *Manifest) {
	set := func(key string, paths ...string) {
		for _, p := range paths {
			if p != "" {
				to[key] = append(to[key], filepath.Join(m.Mount, manifest.Name, p))
			}
		}
	}
	first := func(key, p string) {
		if len(to[key]) == 0 {
			set(key, p)
		}
	}
	first("EDGEWISE_GPU_VULKAN", manifest.Loader)
	first("EDGEWISE_GPU_DRIVER", manifest.Driver)
	first("EDGEWISE_GPU_TELEMETRY", manifest.Telemetry)
	set("EDGEWISE_GPU_LIBRARIES", manifest.Libraries...)
	var found, software []string
	for _, d := range manifest.Devices {
		switch {
		case d.Vendor == "":
			software = append(software, d.Manifests...)
		case m.has(d.Vendor):
			found = append(found, d.Manifests...)
		}
	}
	if len(found) == 0 {
		found = software
	}
	set("EDGEWISE_GPU_VULKAN_DRIVERS", found...)
}

// note writes what became of the drivers, and the environment.
func (m *Machine) note(list []Mounted, environment map[string][]string) error {
	const op = "driver.note"
	var lines []string
	for key, paths := range environment {
		if len(paths) > 0 {
			lines = append(lines, key+"="+strings.Join(paths, ",")+"\n")
		}
	}
	slices.Sort(lines)
	text, err := json.Marshal(list)
	if err == nil {
		err = update.WriteFile(filepath.Join(m.Mount, mountedFile), text, 0o644)
	}
	if err == nil {
		err = update.WriteFile(filepath.Join(m.Mount, EnvironmentFile), []byte(strings.Join(lines, "")), 0o644)
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	return nil
}

// Stop unmounts what this start has mounted, so that the disk below it can be.
func (m *Machine) Stop(ctx context.Context) {
	list, _ := ReadMounted(m.Mount)
	for _, d := range list {
		if d.Mounted {
			if _, err := m.Run(ctx, "umount", filepath.Join(m.Mount, d.Name)); err != nil {
				m.Say(fmt.Sprintf("driver %s stays mounted: %v", d.Name, err))
			}
		}
	}
}

// ReadMounted reads what became of the drivers at this start. A start that has mounted nothing yet has an empty list.
// Errors: Internal, Corrupt.
func ReadMounted(folder string) ([]Mounted, error) {
	const op = "driver.ReadMounted"
	text, err := os.ReadFile(filepath.Join(cmp.Or(folder, MountFolder), mountedFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	var list []Mounted
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Corrupt, "%w", err)
	}
	return list, nil
}
