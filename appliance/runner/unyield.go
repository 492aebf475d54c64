package runner

import (
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unyield gives all threads of a process the nice value of its first one. A backend loads on a thread that gives way to those
// that serve, and what native code starts there for its runs inherits that. It looks until there is none left, since a
// thread that is started meanwhile is as nice as who starts it. Where the system does not allow it, no backend gives way.
func Unyield(pid int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	first, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	for again := err == nil; again; {
		again = false
		threads, _ := filepath.Glob(folder + "*") // the pattern is a good one
		for _, path := range threads {
			thread, err := strconv.Atoi(strings.TrimPrefix(path, folder))
			if err != nil {
				return
			}
			// The system call counts from 1, the nicest, to 40. A thread without a value has ended.
			if now, err := unix.Getpriority(unix.PRIO_PROCESS, thread); err != nil || now == first {
				continue
			}
			if unix.Setpriority(unix.PRIO_PROCESS, thread, 20-first) != nil {
				return
			}
			again = true
		}
	}
}
