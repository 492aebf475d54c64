package child

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RestorePriority gives all threads of a process the highest priority, the lowest nice value, that one of them has, and
// takes them out of the scheduling class of idle threads. A backend loads on a thread of low priority, and threads that
// native code starts there inherit it. Where the system refuses, all threads keep theirs.
func RestorePriority(pid int) {
	best := 0 // as the system call counts: 40 is the highest priority, 1 the lowest
	for again := true; again; {
		again = false
		for _, thread := range Threads(pid) {
			if err := leaveIdle(thread); err != nil {
				return
			}
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

// leaveIdle takes a thread out of the class of idle threads, with the nice value that it has.
func leaveIdle(thread int) error {
	attributes, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attributes.Policy != unix.SCHED_IDLE {
		return nil // it has ended, or is what it should be
	}
	attributes.Policy = unix.SCHED_NORMAL
	if err = unix.SchedSetAttr(thread, attributes, 0); errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// EnterIdle puts the calling thread into the class of idle threads for good: any other thread takes the core from it at
// once. That needs no privilege.
func EnterIdle() {
	if attributes, err := unix.SchedGetAttr(0, 0); err == nil {
		attributes.Policy = unix.SCHED_IDLE
		_ = unix.SchedSetAttr(0, attributes, 0) // where that is refused: it takes part of the cores, and is right all the same
	}
}

// endNice is the niceness of a process that ends: giving its memory back takes a core for some time.
const endNice = 10

// GiveWay makes all threads of a process that is about to end, which leads a group of its own, give way to those that
// serve.
func GiveWay(pid int) {
	if pid > 0 { // 0 is this process
		_ = unix.Setpriority(unix.PRIO_PGRP, pid, endNice)
	}
}

// Threads lists the threads of a process; none of one that has ended.
func Threads(pid int) (list []int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	paths, _ := filepath.Glob(folder + "*") // the pattern is a good one
	for _, path := range paths {
		if thread, err := strconv.Atoi(strings.TrimPrefix(path, folder)); err == nil {
			list = append(list, thread)
		}
	}
	return list
}
