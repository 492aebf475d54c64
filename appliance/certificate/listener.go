package certificate

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// tlsRecord is the first byte of a TLS connection, which begins no request in plain text.
const tlsRecord = 0x16

// Bounds of what is read of a request in plain text before it is led to TLS.
const (
	maxPlainHead   = 8 << 10
	plainHeadTime  = 5 * time.Second
	plainWriteTime = 5 * time.Second
)

// Listener tells TLS from plain text on ln, by the first byte of each connection. Plain text is let through for peers
// that plain allows; other requests are led to the same address over TLS.
func Listener(ln net.Listener, config *tls.Config, plain func(peer net.Addr) bool) net.Listener {
	return &listener{ln, config, plain}
}

type listener struct {
	net.Listener
	config *tls.Config
	plain  func(net.Addr) bool
}

// Accept waits for the next connection. What it speaks is found out when it is first read.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, listener: l}, nil
}

// Loopback tells whether a peer is on this machine.
func Loopback(peer net.Addr) bool {
	host, _, err := net.SplitHostPort(peer.String())
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// conn is a connection that may turn out to be TLS. Read and Write are called by one goroutine.
type conn struct {
	net.Conn
	listener *listener
	begun    bool
	secure   *tls.Conn // nil: plain text
}

// Secure tells whether the connection is TLS. It is known once something has been read.
func (c *conn) Secure() bool { return c.secure != nil }

// Read reads what the client sent, decrypted.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.secure != nil:
		return c.secure.Read(p)
	case c.begun:
		return c.Conn.Read(p)
	}
	return c.begin(p)
}

// begin reads for the first time, which tells what the client speaks.
func (c *conn) begin(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	c.begun = true
	switch {
	case p[0] == tlsRecord:
		c.secure = tls.Server(&prefixed{c.Conn, io.MultiReader(bytes.NewReader(bytes.Clone(p[:n])), c.Conn)}, c.listener.config)
		return c.secure.Read(p)
	case c.listener.plain(c.RemoteAddr()):
		return n, err
	}
	c.redirect(p[:n])
	return 0, errors.Join(io.EOF, c.Conn.Close())
}

// Write sends to the client, encrypted.
func (c *conn) Write(p []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Write(p)
	}
	return c.Conn.Write(p)
}

// CloseWrite ends the sending side and lets the client send on.
func (c *conn) CloseWrite() error {
	if c.secure != nil {
		return c.secure.CloseWrite()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// Close closes the connection. It may be called by anybody at any time.
func (c *conn) Close() error { return c.Conn.Close() }

// SyscallConn lets others look at the socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, net.ErrClosed
}

// redirect leads a request in plain text, of which ahead has been read, to TLS.
func (c *conn) redirect(ahead []byte) {
	_ = c.SetDeadline(time.Now().Add(plainHeadTime))
	in := bufio.NewReader(io.LimitReader(io.MultiReader(bytes.NewReader(ahead), c.Conn), maxPlainHead))
	target, host := readHead(in)
	answer := "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"
	body := `{"error":"this port speaks TLS: ask again with https","code":"invalid"}`
	if host != "" {
		answer = fmt.Sprintf("HTTP/1.1 308 Permanent Redirect\r\nConnection: close\r\nContent-Type: "+
			"application/json\r\nLocation: https://%s%s\r\n", host, target)
	}
	_ = c.SetDeadline(time.Now().Add(plainWriteTime))
	_, _ = fmt.Fprintf(c.Conn, "%sContent-Length: %d\r\n\r\n%s", answer, len(body), body)
}

// readHead returns the target and the host of a request; host is empty when the request cannot be redirected.
func readHead(in *bufio.Reader) (target, host string) {
	request, err := http.ReadRequest(in)
	if err != nil || !strings.HasPrefix(request.RequestURI, "/") || strings.HasPrefix(request.RequestURI, "//") ||
		!visible(request.RequestURI) || !visible(request.Host) || strings.ContainsAny(request.Host, "/\\@?#") {
		return "", ""
	}
	return request.RequestURI, request.Host
}

func visible(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// prefixed is a connection that first returns the bytes that were read to recognize TLS.
type prefixed struct {
	net.Conn
	io.Reader // those bytes, and then the connection's
}

func (p *prefixed) Read(b []byte) (int, error) { return p.Reader.Read(b) }
