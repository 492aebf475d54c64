package httpapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/listen"
)

const (
	// lingerTime and lingerBytes bound how long a connection whose request was refused is read on after the answer, so
	// that a client which is still sending reads the answer instead of a reset (valyala/fasthttp#1348).
	lingerTime  = 2 * time.Second
	lingerBytes = 64 << 20
	// writeStep is how many bytes of an answer are handed to the socket under one deadline.
	writeStep = 256 << 10
)

// listener hands out tracked connections.
type listener struct {
	*listen.Listener
	writeTimeout time.Duration

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

func newListener(ln net.Listener, cfg Config, budget *listen.Budget, log *slog.Logger) *listener {
	return &listener{
		Listener: listen.New(ln, listen.Options{
			Max: cfg.MaxConnections, Key: "http.max_connections", Budget: budget, Refuse: refuseConnection, Log: log,
		}),
		writeTimeout: cfg.WriteTimeout,
		conns:        make(map[*conn]struct{}),
	}
}

// refuseConnection tells a client why its connection is closed.
func refuseConnection(c net.Conn, why error) {
	// A fresh socket's buffer takes this without waiting; the deadline is for the case that it does not.
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	body, err := json.Marshal(ErrorBody(why))
	if err != nil {
		return // text and numbers always marshal
	}
	_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"+
		"Connection: close\r\nRetry-After: %d\r\nContent-Length: %d\r\n\r\n%s", retryAfter, len(body), body)
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	counted := inner.(*listen.Conn)
	c := &conn{Conn: counted.Conn, counted: counted, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// cut breaks the connections that cond selects under whoever uses them; they are forgotten when their user closes them.
func (l *listener) cut(cond func(*conn) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if cond(c) {
			_ = c.Conn.Close()
		}
	}
}

// conn is one client's connection. It is used by the goroutine that serves it; Close may be called by others while
// that one waits for a request.
type conn struct {
	net.Conn
	counted  *listen.Conn // to be closed in the end
	listener *listener
	closed   atomic.Bool
	heard    atomic.Bool                  // whether the client has sent anything
	linger   atomic.Bool                  // whether the client may still be sending when the connection is closed
	answer   atomic.Pointer[blocks.Block] // memory of the last answer, held for the writer
	broken   error                        // what the last Read failed with; the libraries above lose it
	answered bool                         // whether something was written since the last Read
	others   bool                         // whether other requests were in progress when the last one ended
	waiting  waiting
	held     held
	request  Request // in progress
	reads    deadline
	writes   deadline
}

// keep holds b for the writer of the answer until the next request is read or answered.
func (c *conn) keep(b *blocks.Block) { c.answer.Swap(b).Free() }

// SetReadDeadline bounds the Reads that follow, give or take a slackShare; one in progress is not touched.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.reads.want = t
	return nil
}

// Read reads from the client. It is called only when the last answer has left its memory.
func (c *conn) Read(p []byte) (int, error) {
	c.keep(nil)
	if err := c.reads.apply(c.Conn.SetReadDeadline); err != nil {
		c.broken = err
		return 0, err
	}
	if c.answered {
		c.answered = false
		c.letGo()
		if c.others {
			runtime.Gosched() // its next request is rarely there yet: others first, who may have theirs
		}
	}
	n, err := c.Conn.Read(p)
	c.broken = err
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

// Write writes p in steps, each with its own deadline: a slow client may take as long as it takes, a stopped one not.
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		step := p[:min(len(p), writeStep)]
		c.writes.want = time.Now().Add(c.listener.writeTimeout)
		if err = c.writes.apply(c.Conn.SetWriteDeadline); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(step)
		written += n
		p = p[n:]
		if err != nil || len(p) == 0 {
			c.answered = true
			return written, err
		}
	}
}

// Close closes the connection, lingering where the client may still be sending. It may be called more than once.
func (c *conn) Close() error {
	c.keep(nil)
	if c.closed.Swap(true) {
		return nil
	}
	if c.linger.Load() {
		c.drain()
	}
	c.waiting.gone()
	if h := c.held.last.Load(); h != nil {
		h.stop()
	}
	c.letGo()
	c.listener.forget(c)
	return c.counted.Close()
}

// drain says goodbye and reads what the client still sends, within bounds.
func (c *conn) drain() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	if c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	sink := make([]byte, 32<<10)
	for total := 0; total < lingerBytes; {
		n, err := c.Conn.Read(sink)
		if err != nil {
			return
		}
		total += n
	}
}

// slackShare is the part of a time limit by which it may be over too early: moving the limit of a socket takes locks
// and timers, and on a busy connection every request moves it several times without waiting under it.
const slackShare = 64

// deadline is a time limit of a socket, which is moved when somebody is about to wait under it and no sooner.
type deadline struct {
	want  time.Time     // zero: none
	set   time.Time     // what the socket has
	slack time.Duration // how much later want may be than set
}

// apply moves the socket's limit if that is necessary.
func (d *deadline) apply(move func(time.Time) error) error {
	if late := d.want.Sub(d.set); !d.set.IsZero() && late >= 0 && late <= d.slack || d.want.Equal(d.set) {
		return nil
	}
	if err := move(d.want); err != nil {
		return err
	}
	d.set, d.slack = d.want, 0
	if !d.want.IsZero() {
		d.slack = time.Until(d.want) / slackShare
	}
	return nil
}
