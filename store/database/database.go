// Package database holds what the files of bbolt in a data folder have in common: they may be damaged, belong to one
// process, say which release can read them, and are copied while they change.
package database

import (
	"errors"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// LockTimeout is how long a process waits for another one to leave the data folder or a file in it.
const LockTimeout = time.Second

// Open opens a bbolt file, making it with the mode where it may. It reports a damaged file as an error, whatever
// way bbolt takes to say so.
func Open(path string, mode os.FileMode, readOnly bool) (db *bbolt.DB, err error) {
	var opened *os.File
	o := &bbolt.Options{
		Timeout:      LockTimeout,
		ReadOnly:     readOnly,
		FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			opened = f
			return f, err
		},
	}
	err = Guard(func() error {
		db, err = bbolt.Open(path, mode, o)
		return err
	})
	if err == nil {
		return db, nil
	}
	if opened != nil { // after a panic bbolt has neither closed nor unlocked it, and its mapping would keep the lock
		_ = unix.Flock(int(opened.Fd()), unix.LOCK_UN)
		_ = opened.Close()
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, busyFolder(path)
	}
	return nil, err
}

// View lets fn read one state of a bbolt file that may be damaged.
func View(db *bbolt.DB, fn func(tx *bbolt.Tx) error) error {
	return Guard(func() error { return db.View(fn) })
}

// Guard runs fn and turns the panics and memory faults with which bbolt meets a damaged file into errors.
func Guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = edgewise.Errorf("database.Guard", edgewise.Corrupt, "the file is damaged: %v", r)
		}
	}()
	return fn()
}

func busyFolder(path string) *edgewise.Error {
	return edgewise.Errorf("database.Open", edgewise.Conflict, "%s is locked: another edgewise runs on this data folder", path)
}
