package runner

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RestorePriority gives all threads of a process the highest priority, the lowest nice value, that one of them has. A
// backend loads on a thread of low priority, and threads that native code starts there inherit it. Where the system
// refuses, all threads keep theirs.
func RestorePriority(pid int) {
	best := 0 // as the system call counts: 40 is the highest priority, 1 the lowest
	for again := true; again; {
		again = false
		for _, thread := range threadsOf(pid) {
			now, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
			if err != nil || now == best { // it has ended, or is what it should be
				continue
			}
			again = true // also because one may have been started meanwhile, by one of low priority
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
