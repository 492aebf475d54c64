package runner

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unyield gives all threads of a process the nice value of those that give way the least. A backend loads on a thread that
// gives way to those that serve, and what native code starts there for its runs inherits that. Where the system does not
// allow it, no backend gives way.
func Unyield(pid int) {
	best := 0 // as the system call counts: 40 gives way the least, 1 the most
	for again := true; again; {
		again = false
		for _, thread := range threadsOf(pid) {
			now, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
			if err != nil || now == best { // it has ended, or is what it should be
				continue
			}
			again = true // also because one may have been started meanwhile, by one that gives way
			if now > best {
				best = now
				continue
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, thread, 20-best); err != nil && !errors.Is(err, unix.ESRCH) {
				return
			}
		}
	}
}

// threadsOf lists the threads of a process; none of one that has ended.
func threadsOf(pid int) (list []int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	paths, _ := filepath.Glob(folder + "*") // the pattern is a good one
	for _, path := range paths {
		if thread, err := strconv.Atoi(strings.TrimPrefix(path, folder)); err == nil {
			list = append(list, thread)
		}
	}
	return list
}
