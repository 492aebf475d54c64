package database

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Names in a data folder that all its files share.
const (
	lockFile         = "lock"
	lockMode         = 0o640
	QuarantineFolder = "quarantine" // where what is damaged goes
	PartialSuffix    = ".tmp"       // of the name of a file that is being made
	StampFormat      = "20060102T150405.000Z"
)

// Lock keeps other processes out of a data folder.
type Lock struct{ f *os.File }

// LockFolder takes the lock file of a data folder, waiting at most LockTimeout.
func LockFolder(dir string) (*Lock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, lockMode)
	if err != nil {
		return nil, err
	}
	deadline := time.NewTimer(LockTimeout)
	defer deadline.Stop()
	again := time.NewTicker(LockTimeout / 50)
	defer again.Stop()
	for {
		err := tryLock(f)
		if err == nil {
			return &Lock{f}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-deadline.C:
			return nil, errors.Join(busyFolder(path), f.Close())
		case <-again.C:
		}
	}
}

func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// Release lets other processes in. The file stays.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// Finding is one thing in a data folder that is not as it should be.
type Finding struct {
	Model   edgewise.ModelID `json:"model"`            // empty when it is about no model
	Path    string           `json:"path,omitempty"`   // inside the data folder
	Problem string           `json:"problem"`          // what is wrong
	Action  string           `json:"action,omitempty"` // Repair: what was done about it
}

// String returns the finding as one line.
func (f Finding) String() string {
	var b strings.Builder
	if f.Model.Name != "" {
		fmt.Fprintf(&b, "model %s: ", f.Model)
	}
	if f.Path != "" {
		fmt.Fprintf(&b, "%s: ", f.Path)
	}
	b.WriteString(f.Problem)
	if f.Action != "" {
		fmt.Fprintf(&b, " -> %s", f.Action)
	}
	return b.String()
}
