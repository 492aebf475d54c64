package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// wakePipe wakes a goroutine of the parent that waits for an answer in Go's poller and not on a thread. A thread that
// waits in the kernel keeps its place in Go's scheduler until Go's monitor takes the place away. The monitor looks for
// such threads every 20 us while it finds one, which took 4 % of two cores while requests queued for a model. A wake-up
// by the poller needs another thread first, so it is used only where requests queue anyway.
type wakePipe struct {
	fd   int      // the write end; the parent closes it once the child has it
	file *os.File // the read end, in the parent
}

// newWakePipe makes a pipe. The caller sends fd to the child and closes it; the reader then sees the end of the child.
func newWakePipe() (*wakePipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	return &wakePipe{ends[1], os.NewFile(uintptr(ends[0]), "wake pipe")}, nil
}

// wake wakes the reader. On nil it does nothing: that reader sleeps in the kernel.
func (b *wakePipe) wake() {
	if b != nil {
		_, _ = unix.Write(b.fd, []byte{1}) // fails only when the pipe is full of wake-ups
	}
}

// wait returns after the next wake-up, and false when the write end is closed.
func (b *wakePipe) wait() bool {
	var read [64]byte
	_, err := b.file.Read(read[:])
	return err == nil
}

func (b *wakePipe) close() { _ = b.file.Close() }
