package runner

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadsOfALoadAreAsNiceAsTheProcess makes a thread nicer than its process, as a load does. Where the system lets
// no thread take that back it stays so.
func TestThreadsOfALoadAreAsNiceAsTheProcess(t *testing.T) {
	first := 0
	for _, thread := range threadsOf(os.Getpid()) {
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, thread); err == nil {
			first = max(first, now)
		}
	}
	nicer := func() int {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-first+5, 19)); err != nil {
			t.Error(err)
		}
		now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
		return now
	}
	allowed, yielded, look, seen := make(chan bool), make(chan int), make(chan struct{}), make(chan int)
	go func() {
		nicer()
		allowed <- unix.Setpriority(unix.PRIO_PROCESS, 0, 20-first) == nil
	}()
	go func() {
		yielded <- nicer()
		<-look
		now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
		seen <- now
	}()
	may, want := <-allowed, <-yielded
	if may {
		want = first
	}
	RestorePriority(os.Getpid())
	close(look)
	if got := <-seen; got != want {
		t.Errorf("the thread has %d, want %d; %d is the process's", got, want, first)
	}
}
