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
	fd   int      // the end of a pipe that rings; the parent has none once the child has it
	file *os.File // the other end, which the parent listens on
}

// newBell makes a bell. Its caller gives fd to the child and closes it, so that the bell is heard a last time when the child ends.
func newBell() (*bell, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	return &bell{ends[1], os.NewFile(uintptr(ends[0]), "bell")}, nil
}

// ring may be called on nil: who has no bell sleeps elsewhere, whatever the other side says.
func (b *bell) ring() {
	if b != nil {
		_, _ = unix.Write(b.fd, []byte{1}) // refused only when it has rung so often that nobody can miss it
	}
}

// listen returns when the bell has rung since it last did, and false when it cannot be heard any more.
func (b *bell) listen() bool {
	var rung [64]byte
	_, err := b.file.Read(rung[:])
	return err == nil
}

func (b *bell) close() { _ = b.file.Close() }
