package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls that Go's scheduler is not told of. It takes a call that lasts for one that blocks, and its monitor then
// looks every 20 us whether there are more of them: that took the load a fifth of one of the two cores, from the
// servers that are measured beside it. The thread of the load has a core of Go's scheduler to itself, so nobody waits
// for that.

func untoldRead(fd int, into []byte) (int, error) {
	n, _, number := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)))
	return returned(n, number)
}

func untoldWrite(fd int, data []byte) (int, error) {
	n, _, number := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
	return returned(n, number)
}

// untoldWait waits for events for a number of milliseconds at most.
func untoldWait(poll int, events []unix.EpollEvent, timeout int) (int, error) {
	n, _, number := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(poll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(timeout), 0, 0)
	return returned(n, number)
}

func returned(n uintptr, number unix.Errno) (int, error) {
	if number != 0 {
		return -1, number
	}
	return int(n), nil
}
