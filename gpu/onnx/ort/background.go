package ort

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// loadNice is the niceness of a thread that loads: a core shared with a thread that serves is its for a tenth of the time.
const loadNice = 10

// background runs f, which is long and which nobody's request waits for, on a thread of its own that gives way to those
// that serve. The thread ends with f; threads that f makes in C keep its niceness.
func background(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that nobody else gets this thread
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), loadNice)
		done <- f()
	}()
	return <-done
}
