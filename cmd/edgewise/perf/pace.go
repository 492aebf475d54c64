package perf

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// longestSleep bounds one sleep of sleepUntil, so that it sees the end of its context.
const longestSleep = 20 * time.Millisecond

// fineTimer makes the kernel wake the calling thread within a microsecond or so of the time it asked for, instead of
// the usual fifty. The caller has locked itself to its thread.
func fineTimer() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) }

// sleepUntil blocks the calling thread until t. The runtime's own timers are a millisecond coarse while nothing else
// runs, which would be counted as latency. It returns false when ctx has ended.
func sleepUntil(ctx context.Context, t time.Time) bool {
	for ctx.Err() == nil {
		left := time.Until(t)
		if left <= 0 {
			return true
		}
		part := syscall.NsecToTimespec(int64(min(left, longestSleep)))
		_ = syscall.Nanosleep(&part, nil) // a signal ends it early: the loop looks again
	}
	return false
}

// processorTime returns the processor seconds that this process has used, in user and kernel.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
