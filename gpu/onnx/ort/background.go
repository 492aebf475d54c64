package ort

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// loadNice is the niceness of a thread that loads: a core shared with a thread that serves is its for a tenth of the
// time.
const loadNice = 10

// background runs f, which is long and which nobody's request waits for, on a thread of its own that gives way to those
// that serve, if this system lets a thread take that back (CAP_SYS_NICE, or RLIMIT_NICE). The thread ends with f;
// threads that f makes in C for later are as nice as it is, until somebody gives them the nice value of the process.
func background(f func() error) error {
	if !mayYield() {
		return onNiceThread(0, f)
	}
	return onNiceThread(loadNice, f)
}

// onNiceThread runs f on a thread of its own, which ends with f. That thread is so nice, 0: as the process is, and so
// are those that f makes in C.
func onNiceThread(nice int, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that nobody else gets this thread
		if nice > 0 {
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice)
		}
		done <- f()
	}()
	return <-done
}

// mayYield tries on a thread of its own, which may have to stay as nice as it was made, whether one that has given way
// can be what it was. A process that is nicer than loads are has nothing to give.
func mayYield() bool {
	allowed := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked
		before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		nice := 20 - before // the system call counts from 1, the nicest, to 40
		allowed <- err == nil && nice < loadNice && unix.Setpriority(unix.PRIO_PROCESS, 0, loadNice) == nil &&
			unix.Setpriority(unix.PRIO_PROCESS, 0, nice) == nil
	}()
	return <-allowed
}
