package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// bell wakes a goroutine of the parent that waits for an answer in Go's poller instead of on a thread. A thread that waits in the
// kernel keeps its place in Go's scheduler until Go's monitor takes that away, which looks for such threads every 20 us while it finds
// some: with requests that queue for a model that cost two cores 4 % of their time, and the runs on them their caches. To be woken
// by the poller takes another thread's turn, which is only of no matter where requests wait anyway.
type bell struct {
	fd   int      // an eventfd
	file *os.File // the parent's, which it listens on
}

// newBell makes a bell, whose descriptor the child gets.
func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &bell{fd, os.NewFile(uintptr(fd), "bell")}, nil
}

// ring may be called on nil: who has no bell sleeps elsewhere, whatever the other side says.
func (b *bell) ring() {
	if b != nil {
		_, _ = unix.Write(b.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // refused only when it has rung for ever
	}
}

// listen returns when the bell has rung since it last did, and false when it cannot be heard.
func (b *bell) listen() bool {
	var rung [8]byte
	_, err := b.file.Read(rung[:])
	return err == nil
}

func (b *bell) close() { _ = b.file.Close() }
