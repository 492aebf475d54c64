package httpapi

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// left tells whether the other side of a connection has closed it, or its own half of it. Nothing is read.
func left(c net.Conn) bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		const end = unix.POLLRDHUP | unix.POLLHUP | unix.POLLERR
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		closed = err == nil && n > 0 && fds[0].Revents&end != 0
	})
	return err == nil && closed
}
