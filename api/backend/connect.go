package backend

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long a backend may leave what is sent to it unread before its connection is given up.
const Patience = 10 * time.Second

// Connect makes a connection with a backend that is started next: the server's half, and the files of its process, in
// the order of their descriptors from SocketFD on. The caller closes those when the process has them. Whoever does not
// call Serve calls End.
func Connect(inputBytes, outputBytes int64, events Events) (c *Client, theirs []*os.File, err error) {
	c = &Client{
		events: events, ready: make(chan *Ready, 1), done: make(chan uint64, 1), ended: make(chan struct{}),
		calls: map[uint64]*Call{}, execs: map[uint64]bool{}, reads: map[uint64]bool{}, borrowed: map[uint64]uint64{},
		checks: map[uint64]chan error{},
	}
	defer func() {
		if err == nil {
			return
		}
		c.release()
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	own, socket, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	c.socket, theirs = newSocket(own, Patience), []*os.File{socket}
	if c.turn, err = newClientTurn(own); err != nil {
		return nil, theirs, err
	}
	if c.in, err = newMemory("edgewise-input", inputBytes, true); err != nil {
		return nil, theirs, err
	}
	if c.out, err = newMemory("edgewise-output", outputBytes, false); err != nil {
		return nil, theirs, err
	}
	for _, m := range []*Memory{c.in, c.out} {
		f, err := m.open(m == c.out)
		if err != nil {
			return nil, theirs, err
		}
		theirs = append(theirs, f)
	}
	return c, theirs, nil
}

// release closes what there is of a connection.
func (c *Client) release() {
	if c.turn != nil {
		c.turn.close()
	}
	if c.socket != nil {
		_ = c.socket.close()
	}
	for _, m := range []*Memory{c.in, c.out} {
		if m != nil {
			m.Close()
		}
	}
}

// socketPair makes both ends of a connection. Reads from ours wait for leadTime, writes to it for Patience.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs = os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "socket")
	for option, d := range map[int]time.Duration{unix.SO_RCVTIMEO: leadTime, unix.SO_SNDTIMEO: Patience} {
		t := unix.NsecToTimeval(d.Nanoseconds())
		if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, option, &t); err != nil {
			_, _ = ours.Close(), theirs.Close()
			return nil, nil, err
		}
	}
	return ours, theirs, nil
}
