package driver

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
)

const (
	stateFile    = "drivers.json"
	incomingFile = "incoming"
	// MaxVersions bounds the versions of a driver that are kept.
	MaxVersions = 2
	// MaxDrivers bounds the drivers that are installed.
	MaxDrivers = 4
	// maxImported bounds the extensions of the boot partition that are remembered.
	maxImported = 16
	// reserveBytes stays free on the disk: logs and settings are on it, too.
	reserveBytes = 64 << 20
)

// Folder keeps the installed driver extensions of a box, in a folder that only root writes to. One process at a time
// changes it.
type Folder struct {
	Path string
	Keys string // folder of the public keys of releases
	// Step is called before each change that a cut of the power can fall in front of; nil in a box.
	Step func(name string)
	// Free returns the bytes that the disk of the folder has left; nil: it is asked for.
	Free func() (int64, error)
}

// Entry is an installed extension.
type Entry struct {
	Manifest  Manifest  `json:"manifest"`
	File      string    `json:"file"` // its name in the folder
	Installed time.Time `json:"installed"`
	Tries     int       `json:"tries,omitempty"` // starts in a row that did not end with its modules loaded
}

// State is what a folder remembers.
type State struct {
	// Entries are the installed extensions. Of a driver the first one that fits is mounted.
	Entries []Entry `json:"entries,omitempty"`
	// Used names the file of a driver that a slot has mounted last, by slot and driver.
	Used map[string]map[string]string `json:"used,omitempty"`
	// Imported are the digests of extensions that were installed from the boot partition.
	Imported []string `json:"imported,omitempty"`
}

func (f *Folder) at(name string) string { return filepath.Join(f.Path, name) }

func (f *Folder) step(name string) {
	if f.Step != nil {
		f.Step(name)
	}
}

// State reads what is installed. A file that cannot be understood is an empty one. Errors: Internal.
func (f *Folder) State() (State, error) {
	var s State
	text, err := os.ReadFile(f.at(stateFile))
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return s, edgewise.Errorf("driver.State", edgewise.Internal, "%w", err)
	}
	if json.Unmarshal(text, &s) != nil {
		return State{}, nil
	}
	return s, nil
}

// write makes a state the folder's, and removes the files that it does not name.
func (f *Folder) write(s State) error {
	text, err := json.Marshal(s)
	if err == nil {
		f.step("record")
		err = update.WriteFile(f.at(stateFile), text, 0o644)
	}
	if err != nil {
		return edgewise.Errorf("driver.write", edgewise.Internal, "%w", err)
	}
	f.step("sweep")
	return f.sweep(s)
}

// sweep removes the files that a state does not name: of what was removed, and of installations that were cut off.
func (f *Folder) sweep(s State) error {
	files, err := os.ReadDir(f.Path)
	if err != nil {
		return edgewise.Errorf("driver.sweep", edgewise.Internal, "%w", err)
	}
	for _, file := range files {
		named := slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.File == file.Name() })
		if named || file.Name() == stateFile {
			continue
		}
		if err := os.Remove(f.at(file.Name())); err != nil {
			return edgewise.Errorf("driver.sweep", edgewise.Internal, "%w", err)
		}
	}
	return nil
}

// Offer is an extension that is to be installed.
type Offer struct {
	File     *os.File
	System   System // that runs
	Next     string // version of the slot that the next start takes; empty: the running one's
	Imported bool   // it comes from the boot partition, which offers it again at each start
}

// Install checks an extension, copies it into the folder and makes it the preferred one of its driver. The copy is
// what is checked, so that nobody can exchange it behind its check. Errors: Invalid, Denied, TooLarge, Exhausted,
// Conflict when it does not fit the system, Exists, Internal.
func (f *Folder) Install(o Offer) (Entry, error) {
	const op = "driver.Install"
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		return Entry{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	s, err := f.State()
	if err != nil {
		return Entry{}, err
	}
	if err := f.sweep(s); err != nil {
		return Entry{}, err
	}
	if err := f.acceptable(o, &s); err != nil {
		return Entry{}, err
	}
	m, err := f.copy(o.File)
	if err != nil {
		return Entry{}, errors.Join(err, f.sweep(s))
	}
	e := Entry{Manifest: m, File: m.Name + "_" + m.Version + "_" + m.SHA256[:12] + ".driver", Installed: time.Now().UTC()}
	f.step("rename")
	if err := os.Rename(f.at(incomingFile), f.at(e.File)); err != nil {
		return Entry{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	s.add(e, o.System.Slot)
	if o.Imported {
		s.remember(m.SHA256)
	}
	return e, f.write(s)
}

// acceptable looks at the header of an offer before anything is copied.
func (f *Folder) acceptable(o Offer, s *State) error {
	const op = "driver.Install"
	info, err := o.File.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return edgewise.Errorf(op, edgewise.Invalid, "what came is no file")
	}
	if info.Size() > MaxBytes {
		return edgewise.Errorf(op, edgewise.TooLarge, "the driver extension has %d bytes: at most %d are allowed", info.Size(),
			int64(MaxBytes)).WithLimit(MaxBytes)
	}
	keys, err := update.Keys(f.Keys)
	if err != nil {
		return err
	}
	file, err := Read(o.File, info.Size())
	if err != nil {
		return err
	}
	if err := file.VerifyHeader(keys); err != nil {
		return err
	}
	m := &file.Manifest
	if err := o.fits(m); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, e := range s.Entries {
		names[e.Manifest.Name] = true
		if e.Manifest.SHA256 == m.SHA256 && e.Manifest.Version == m.Version && e.Manifest.Name == m.Name {
			return edgewise.Errorf(op, edgewise.Exists, "driver %s %s is installed already", m.Name, m.Version)
		}
	}
	if !names[m.Name] && len(names) >= MaxDrivers {
		return edgewise.Errorf(op, edgewise.Conflict, "%d drivers are installed, which is the most: remove one", len(names))
	}
	return f.room(info.Size())
}

// fits returns nil when an extension fits the system that runs, or the slot that the next start takes. Error: Conflict.
func (o Offer) fits(m *Manifest) error {
	err := m.Fit(o.System)
	if err == nil || o.Next == "" || o.Next == o.System.Version {
		return err
	}
	next := o.System
	next.Version = o.Next
	next.Kernel, next.Level = m.Fits.Kernel, m.Fits.Level // what the other slot has is seen when it runs
	if m.Fit(next) == nil {
		return nil
	}
	return err
}

// room returns nil when an extension finds room on the disk. Error: Exhausted.
func (f *Folder) room(size int64) error {
	const op = "driver.Install"
	free := f.Free
	if free == nil {
		free = func() (int64, error) {
			var fs unix.Statfs_t
			err := unix.Statfs(f.Path, &fs)
			return int64(fs.Bavail) * fs.Bsize, err
		}
	}
	left, err := free()
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	if left-size < reserveBytes {
		return edgewise.Errorf(op, edgewise.Exhausted, "the driver extension has %d bytes, and the disk has %d left, of which %d stay free",
			size, left, int64(reserveBytes))
	}
	return nil
}

// copy copies an extension into the folder, and checks the copy.
func (f *Folder) copy(from *os.File) (Manifest, error) {
	const op = "driver.Install"
	f.step("copy")
	own, err := os.OpenFile(f.at(incomingFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return Manifest{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	defer func() { _ = own.Close() }()
	n, err := io.Copy(own, io.LimitReader(io.NewSectionReader(from, 0, MaxBytes+1), MaxBytes+1))
	f.step("sync")
	if err = errors.Join(err, own.Sync()); errors.Is(err, unix.ENOSPC) {
		return Manifest{}, edgewise.Errorf(op, edgewise.Exhausted, "the disk is full: %w", err)
	} else if err != nil {
		return Manifest{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	f.step("check")
	return f.check(own, n)
}

// check reads and verifies a file of the folder.
func (f *Folder) check(own io.ReaderAt, size int64) (Manifest, error) {
	keys, err := update.Keys(f.Keys)
	if err != nil {
		return Manifest{}, err
	}
	file, err := Read(own, size)
	if err != nil {
		return Manifest{}, err
	}
	return file.Manifest, file.Verify(keys)
}

// add puts an extension in front of the others of its driver. Beside it one other is kept: the one that the other slot
// has mounted last, otherwise the one that was preferred before.
func (s *State) add(e Entry, slot string) {
	var others, rest []Entry
	for _, o := range s.Entries {
		if o.Manifest.Name == e.Manifest.Name {
			others = append(others, o)
		} else {
			rest = append(rest, o)
		}
	}
	s.Entries = append(rest, e)
	keep := slices.IndexFunc(others, func(o Entry) bool { return s.usedElsewhere(o, slot) })
	if keep < 0 {
		keep = 0
	}
	if keep < len(others) {
		s.Entries = append(s.Entries, others[keep])
	}
}

// usedElsewhere tells whether another slot has mounted an extension last.
func (s *State) usedElsewhere(e Entry, slot string) bool {
	for name, used := range s.Used {
		if name != slot && used[e.Manifest.Name] == e.File {
			return true
		}
	}
	return false
}

// remember notes that an extension was taken from the boot partition.
func (s *State) remember(digest string) {
	s.Imported = append(slices.DeleteFunc(s.Imported, func(d string) bool { return d == digest }), digest)
	s.Imported = s.Imported[max(0, len(s.Imported)-maxImported):]
}

// Remove removes all versions of a driver. What is mounted stays until the next start. Errors: NotFound, Internal.
func (f *Folder) Remove(name string) error {
	s, err := f.State()
	if err != nil {
		return err
	}
	before := len(s.Entries)
	s.Entries = slices.DeleteFunc(s.Entries, func(e Entry) bool { return e.Manifest.Name == name })
	if len(s.Entries) == before {
		return edgewise.Errorf("driver.Remove", edgewise.NotFound, "no driver %.40q is installed", name)
	}
	for _, used := range s.Used {
		delete(used, name)
	}
	return f.write(s)
}

// Rollback prefers the other version of a driver, if that fits the system. A driver whose modules have failed to load
// is tried again. Errors: NotFound, Conflict, Internal.
func (f *Folder) Rollback(name string, sys System) (Entry, error) {
	const op = "driver.Rollback"
	s, err := f.State()
	if err != nil {
		return Entry{}, err
	}
	var own []int
	for i, e := range s.Entries {
		if e.Manifest.Name == name {
			own = append(own, i)
		}
	}
	switch {
	case len(own) == 0:
		return Entry{}, edgewise.Errorf(op, edgewise.NotFound, "no driver %.40q is installed", name)
	case len(own) == 1:
		return Entry{}, edgewise.Errorf(op, edgewise.Conflict, "driver %s has no version to go back to", name)
	}
	if err := s.Entries[own[1]].Manifest.Fit(sys); err != nil {
		return Entry{}, edgewise.Errorf(op, edgewise.Conflict, "the version before does not fit: %w", err)
	}
	s.Entries[own[0]], s.Entries[own[1]] = s.Entries[own[1]], s.Entries[own[0]]
	s.Entries[own[0]].Tries = 0
	return s.Entries[own[0]], f.write(s)
}
