package listen

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// At listens at a TCP address; reuse lets other processes of the same user listen at the same port. Error: that of the
// system.
func At(address string, reuse bool) (net.Listener, error) {
	var l net.ListenConfig
	if reuse {
		l.Control = func(_, _ string, conn syscall.RawConn) error {
			var option error
			err := conn.Control(func(fd uintptr) { option = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
			return errors.Join(err, option)
		}
	}
	return l.Listen(context.Background(), "tcp", address)
}
