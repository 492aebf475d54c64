package perf

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Bounds of what a connection reads and waits for.
const (
	connectTimeout  = 10 * time.Second
	maxHeadBytes    = 64 << 10
	maxAnswerBytes  = 1 << 30
	maxReason       = 4 << 10   // bytes of an error's body that are looked at
	readBuffer      = 64 << 10  // of a connection, where there are few
	leastReadBuffer = 4 << 10   // of a connection, where there are many
	readBuffers     = 16 << 20  // of all connections together, unless leastReadBuffer makes it more
	interimAnswers  = 8         // of status 1xx before the real one
	pastDeadline    = time.Hour // how long ago the deadline of an aborted exchange was
)

// connection sends one request again and again on a keep-alive connection of its own. It connects when it has to. It
// belongs to one goroutine.
type connection struct {
	request    *Request
	timeout    time.Duration
	buffer     int // bytes
	raw        net.Conn
	release    func() bool // forgets the abort of raw
	reader     *answerReader
	reconnects uint64 // times that the server had closed a connection in use
}

func newConnection(r *Request, timeout time.Duration, connections int) *connection {
	size := min(max(readBuffers/max(connections, 1), leastReadBuffer), readBuffer)
	return &connection{request: r, timeout: timeout, buffer: size}
}

// errStale says that the server has closed the connection before a byte of the answer.
var errStale = errors.New("connection closed by the server before it answered")

// call sends the request and reads the answer to its end; nil stands for a status of 200. A connection that the server
// closed while it was idle is replaced once, as part of the call. When ctx ends the call fails at once.
func (c *connection) call(ctx context.Context) error {
	for {
		reused := c.raw != nil
		if err := c.connect(ctx); err != nil {
			return err
		}
		keep, err := c.exchange(ctx)
		if !keep {
			c.close()
		}
		if reused && errors.Is(err, errStale) && ctx.Err() == nil {
			c.reconnects++
			continue
		}
		return err
	}
}

func (c *connection) connect(ctx context.Context) error {
	if c.raw != nil {
		return nil
	}
	raw, err := c.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.raw = raw
	c.release = context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now().Add(-pastDeadline)) })
	if c.reader == nil {
		c.reader = newAnswerReader(c.buffer)
	}
	c.reader.reset(raw)
	return nil
}

func (c *connection) dial(ctx context.Context) (net.Conn, error) {
	d := &net.Dialer{Timeout: min(connectTimeout, c.timeout), Control: unpaced}
	if !c.request.secure {
		return d.DialContext(ctx, "tcp", c.request.address)
	}
	secure := &tls.Dialer{NetDialer: d, Config: &tls.Config{
		RootCAs: c.request.roots, ServerName: c.request.serverName,
		NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	return secure.DialContext(ctx, "tcp", c.request.address)
}

func (c *connection) close() {
	if c.raw == nil {
		return
	}
	c.release()
	_ = c.raw.Close()
	c.raw = nil
}

// exchange is one request and its answer. keep tells whether the connection can be used again.
func (c *connection) exchange(ctx context.Context) (keep bool, err error) {
	_ = c.raw.SetDeadline(time.Now().Add(c.timeout))
	if err := ctx.Err(); err != nil { // after SetDeadline, which may have undone the abort of ctx
		return false, err
	}
	_, writing := c.raw.Write(c.request.bytes)
	if writing != nil && !refusedEarly(writing) {
		return false, writing
	}
	if _, err := c.reader.buffer.Peek(1); err != nil { // a server may refuse and close while the body is still on its way
		return false, stale(err)
	}
	a, err := c.reader.read()
	if err != nil {
		return false, err
	}
	keep = !a.closing && writing == nil
	if a.status != 200 {
		return keep, &refusal{status: a.status, text: reasonOf(a.reason)}
	}
	return keep, nil
}

// refusedEarly tells whether an answer may be there although the request could not be written to its end.
func refusedEarly(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

func stale(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errStale
	}
	return err
}

// textOf returns an error's text without what differs from connection to connection, such as port numbers.
func textOf(err error, timeout time.Duration) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", timeout)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
