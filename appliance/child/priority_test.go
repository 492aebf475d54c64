package child

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadsOfALoadAreAsNiceAsTheProcess makes a thread nicer than its process, as a load does. Where the system lets
// no thread take that back it stays so.
func TestThreadsOfALoadAreAsNiceAsTheProcess(t *testing.T) {
	first := 0
	for _, thread := range Threads(os.Getpid()) {
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

// TestThreadsOfALoadLeaveTheIdleClass has a thread in the class of idle threads, as a load alone in a process does.
func TestThreadsOfALoadLeaveTheIdleClass(t *testing.T) {
	class := func(thread int) uint32 {
		attributes, err := unix.SchedGetAttr(thread, 0)
		if err != nil {
			t.Error(err)
			return 0
		}
		return attributes.Policy
	}
	idle, end := make(chan int), make(chan struct{})
	allowed := make(chan bool)
	try := func(keep bool) {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		thread := unix.Gettid()
		attributes, err := unix.SchedGetAttr(thread, 0)
		if err != nil {
			t.Error(err)
			return
		}
		attributes.Policy = unix.SCHED_IDLE
		if err := unix.SchedSetAttr(thread, attributes, 0); err != nil {
			t.Error(err)
		}
		if keep {
			idle <- thread
			<-end
			return
		}
		attributes.Policy = unix.SCHED_NORMAL
		allowed <- unix.SchedSetAttr(thread, attributes, 0) == nil
	}
	go try(false)
	want := map[bool]uint32{true: unix.SCHED_NORMAL, false: unix.SCHED_IDLE}[<-allowed]
	go try(true)
	thread := <-idle
	defer close(end)
	RestorePriority(os.Getpid())
	if got := class(thread); got != want {
		t.Errorf("the thread has the class %d, want %d", got, want)
	}
}

// TestAProcessThatEndsGivesWay looks at another process, and at this one.
func TestAProcessThatEndsGivesWay(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	before, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	GiveWay(cmd.Process.Pid)
	GiveWay(0)
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, cmd.Process.Pid); err != nil || now != min(before, 20-endNice) {
		t.Errorf("the process has %d, %v", now, err)
	}
	if now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0); now != before {
		t.Errorf("this process has %d, had %d", now, before)
	}
}
