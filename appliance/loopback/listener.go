package loopback

import (
	"context"
	"errors"
	"net"
	"sync"
)

// host is the address of both ends of a connection. Each connection has ports of its own.
const host = "127.0.0.1"

// listener accepts the connections that its dial makes, and no others.
type listener struct {
	made   chan net.Conn
	closed chan struct{}
	close  func()
}

func newListener() *listener {
	l := &listener{made: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// dial makes a connection. Errors: net.ErrClosed after Close, ctx's, those of the network.
func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs, err := pair(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case l.made <- theirs:
		return ours, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.closed:
		err = net.ErrClosed
	}
	return nil, errors.Join(err, ours.Close(), theirs.Close())
}

// Accept waits for a connection that dial has made. Error: net.ErrClosed.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.made:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial. It may be called more than once.
func (l *listener) Close() error {
	l.close()
	return nil
}

// Addr is the address of all connections, without a port.
func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(host)} }

// pair makes a TCP connection and returns its two ends. Whoever else connects meanwhile is turned away.
func pair(ctx context.Context) (ours, theirs net.Conn, err error) {
	var (
		listen net.ListenConfig
		dialer net.Dialer
	)
	ln, err := listen.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = ln.Close() }()
	if ours, err = dialer.DialContext(ctx, "tcp", ln.Addr().String()); err != nil {
		return nil, nil, err
	}
	for {
		if theirs, err = ln.Accept(); err != nil {
			return nil, nil, errors.Join(err, ours.Close())
		}
		if theirs.RemoteAddr().String() == ours.LocalAddr().String() {
			break
		}
		_ = theirs.Close()
	}
	// Closing discards what was not sent, so that the port is free at once and not after a minute.
	if err := ours.(*net.TCPConn).SetLinger(0); err != nil {
		return nil, nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	return ours, theirs, nil
}
