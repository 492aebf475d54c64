package host

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestThreadsAreThoseOfTheProcess(t *testing.T) {
	numbers := make(chan int)
	end := make(chan struct{})
	defer close(end)
	go func() {
		runtime.LockOSThread()
		numbers <- unix.Gettid()
		for {
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	number := <-numbers
	for { // until the kernel has counted
		if found := Threads("/", os.Getpid())[number]; found.Ran > 0 && found.Runnable {
			break
		}
	}
	if gone := Threads("/", 1<<30); len(gone) != 0 {
		t.Errorf("a process that does not exist has %v", gone)
	}
}

func TestThreadsAreReadWhole(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/7/task/7/schedstat", "1000 2000 3\n")
	write(t, root, "proc/7/task/7/stat", "7 (a) R) S 1 7\n")
	write(t, root, "proc/7/task/8/schedstat", "5 6 7\n")
	write(t, root, "proc/7/task/8/stat", "8 (b) R 1 7\n")
	write(t, root, "proc/7/task/9/schedstat", "x\n")
	write(t, root, "proc/7/task/9/stat", "9 (c) S 1 7\n")
	write(t, root, "proc/7/task/10/stat", "10 (ended")
	got := Threads(root, 7)
	if len(got) != 2 || got[7] != (Thread{1000, 2000, false}) || got[8] != (Thread{5, 6, true}) {
		t.Errorf("%+v", got)
	}
}

func TestAThreadIsStarvedThatWantsToRunAndCannot(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		before, after Thread
		want          bool
	}{
		"sleeps":                        {Thread{s, s, false}, Thread{s, s, false}, false},
		"runs":                          {Thread{s, s, true}, Thread{10 * s, 2 * s, true}, false},
		"gets a core once in a while":   {Thread{s, s, true}, Thread{2 * s, 10 * s, true}, true},
		"got a core, and sleeps":        {Thread{s, s, true}, Thread{2 * s, 10 * s, false}, true},
		"has waited for one ever since": {Thread{s, s, true}, Thread{s, s, true}, true},
	} {
		if got := Starved(map[int]Thread{1: test.before}, map[int]Thread{1: test.after}, 10*s); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
