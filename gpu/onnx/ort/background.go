package ort

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// loadNice is the niceness of a thread that loads: a core shared with a thread that serves is its for a tenth of the
	// time.
	loadNice = 10
	// idleTime is for how long the threads that load in a process of their own run only where a core has nothing else to
	// do. A box without idle cores would never load otherwise.
	idleTime = 10 * time.Second
)

// manner says how loads give way to what serves.
type manner struct {
	idle   time.Time // until then they give way entirely
	missed bool      // a model that has served is loaded again: they do not give way
}

// background runs f, which is long, on a thread of its own that gives way to those that serve, unless its model is
// missed, if this system lets a thread take that back (CAP_SYS_NICE, or RLIMIT_NICE). The thread ends with f; threads
// that f makes in C for later give way as it does, until somebody changes that. Until m.idle the thread gives way
// entirely: no thread that serves may ever wait for what it holds.
func background(f func() error, m manner) error {
	limit := time.Until(m.idle)
	switch {
	case m.missed, !mayYield():
		return onNiceThread(0, f)
	case limit <= 0:
		return onNiceThread(loadNice, f)
	}
	return onIdleThread(f, limit)
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

// onIdleThread is onNiceThread, where the thread has the scheduling class of idle threads first, for at most limit.
func onIdleThread(f func() error, limit time.Duration) error {
	return onNiceThread(loadNice, func() error {
		var mu sync.Mutex // held while the class of the thread changes, which has not ended
		ended, thread := false, unix.Gettid()
		if setClass(thread, unix.SCHED_IDLE) != nil {
			return f()
		}
		timer := time.AfterFunc(limit, func() {
			mu.Lock()
			defer mu.Unlock()
			if !ended {
				_ = setClass(thread, unix.SCHED_NORMAL)
			}
		})
		defer func() {
			timer.Stop()
			mu.Lock()
			defer mu.Unlock()
			ended = true
		}()
		return f()
	})
}

// setClass gives a thread that loads a scheduling class.
func setClass(thread int, class uint32) error {
	return unix.SchedSetAttr(thread, &unix.SchedAttr{Policy: class, Nice: loadNice}, 0)
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
