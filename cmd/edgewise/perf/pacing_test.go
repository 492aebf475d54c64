package perf

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLoopbackIsNotPaced asks the system how a connection sends.
func TestLoopbackIsNotPaced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := (&net.Dialer{Control: unpaced}).Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var way string
	if err := raw.Control(func(fd uintptr) { way, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) }); err != nil {
		t.Fatal(err)
	}
	if way == "bbr" {
		t.Errorf("a connection on loopback is paced by %s", way)
	}
}
