package grpcapi

import (
	"net"
	"sync"
	"sync/atomic"
)

// listener hands out connections, at most max at once; those over the bound are closed, which clients see as UNAVAILABLE.
type listener struct {
	net.Listener
	max  int64
	open atomic.Int64
}

func newListener(ln net.Listener, most int) *listener {
	return &listener{Listener: ln, max: int64(most)}
}

// Accept waits for the next connection within the bound.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.max {
			return &conn{Conn: inner, listener: l}, nil
		}
		l.open.Add(-1)
		_ = inner.Close()
	}
}

// conn is a connection that is counted while it is open.
type conn struct {
	net.Conn
	listener *listener
	once     sync.Once
}

// Close closes the connection. It may be called more than once.
func (c *conn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
