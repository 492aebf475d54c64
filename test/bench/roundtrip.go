package main

import (
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
	roundPace   = 250 * time.Microsecond // about as often as one client asks the box
)

// roundTrip is the least that a call of another process can take: a message through a socket to cat, and back. Both
// sides sleep while they wait, as the box and its backends do, so it is mostly the two wake-ups.
type roundTrip struct{ fd int }

// Read is one system call, which blocks.
func (t roundTrip) Read(to []byte) (int, error) {
	n, err := unix.Read(t.fd, to)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// roundTrip starts cat, which ends with the run.
func (r *run) roundTrip() roundTrip {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	r.check(err)
	far := os.NewFile(uintptr(pair[1]), "socket")
	cat := exec.Command("cat")
	cat.Stdin, cat.Stdout = far, far
	r.check(cat.Start())
	r.check(far.Close())
	r.later(func() {
		_ = unix.Close(pair[0])
		_ = cat.Wait()
	})
	return roundTrip{pair[0]}
}

// sample sends one message after the other. Its thread stays awake between them, as the box does for its other work on
// a request, and cat sleeps.
func (t roundTrip) sample() (sample, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var latencies perf.Histogram
	message := make([]byte, messageSize)
	for begin := time.Now(); time.Since(begin) < callTime; {
		sent := time.Now()
		if _, err := unix.Write(t.fd, message); err != nil {
			return sample{}, err
		}
		if _, err := io.ReadFull(t, message); err != nil {
			return sample{}, err
		}
		latencies.Record(time.Since(sent))
		for time.Since(sent) < roundPace { //nolint:revive // it has to stay awake
		}
	}
	return newSample(&latencies, callTime), nil
}
