// Package roundtrip measures the least that a call of another process can take: a message through a socket to cat, and
// back. Both sides sleep while they wait, as the box and its backends do, so it is mostly the two wake-ups.
package roundtrip

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

const (
	messageSize = 256
	pace        = 250 * time.Microsecond // about as often as one client asks the box
)

// Echo is a process that sends back what it is sent. It is closed.
type Echo struct {
	fd  int
	cat *exec.Cmd
}

// Start starts cat.
func Start() (*Echo, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	far, e := os.NewFile(uintptr(pair[1]), "socket"), &Echo{fd: pair[0], cat: exec.Command("cat")}
	e.cat.Stdin, e.cat.Stdout = far, far
	if err := errors.Join(e.cat.Start(), far.Close()); err != nil {
		_ = unix.Close(e.fd)
		return nil, err
	}
	return e, nil
}

// Close ends the process.
func (e *Echo) Close() {
	_ = unix.Close(e.fd)
	_ = e.cat.Wait()
}

// Read is one system call, which blocks.
func (e *Echo) Read(to []byte) (int, error) {
	n, err := unix.Read(e.fd, to)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Measure sends one message after the other for so long. Its thread stays awake between them, as the box does for its
// other work on a request, and cat sleeps.
func (e *Echo) Measure(during time.Duration) (*perf.Histogram, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	latencies, message := &perf.Histogram{}, make([]byte, messageSize)
	for begin := time.Now(); time.Since(begin) < during; {
		sent := time.Now()
		if _, err := unix.Write(e.fd, message); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(e, message); err != nil {
			return nil, err
		}
		latencies.Record(time.Since(sent))
		for time.Since(sent) < pace { //nolint:revive // it has to stay awake
		}
	}
	return latencies, nil
}
