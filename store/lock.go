package store

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// folderLock keeps other processes out of a data folder.
type folderLock struct{ f *os.File }

// lockFolder takes the lock file, waiting at most LockTimeout.
func lockFolder(path string) (*folderLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, catalogMode)
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
			return &folderLock{f}, nil
		}
		if !isLocked(err) {
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

func isLocked(err error) bool {
	return errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR)
}

// release lets other processes in. The file stays.
func (l *folderLock) release() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}
