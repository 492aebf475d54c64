package perf

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unpaced is a dialer's control: on loopback it has the connection send at once. BBR, where it is the system's choice,
// spreads what is sent over time and adds tens of milliseconds to some requests, which are neither the server's nor a
// network's.
func unpaced(_, address string, c syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		return nil // an address of another form is none of loopback
	}
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic") // a system without it keeps its own
	})
}
