package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

// callers is a closed loop: a number of clients that send one prepared request over and over, each on a connection of
// its own. It takes its time from the same cores as the server, so it does as little as it can: two threads, as the raw
// loop has two callers, or one with a core of its own, serve all connections with a write and a read a request.
type callers struct {
	address string
	path    string
	headers string // whole lines
	body    []byte
	core    int // that the thread is kept on, or anywhere
}

// caller is one connection of callers.
type caller struct {
	fd     int
	rest   []byte // of the request, not yet written
	answer []byte // read so far
	since  time.Time
}

const (
	answerBytes = 1 << 20
	stallTime   = 10 * time.Second
	warmTime    = 100 * time.Millisecond
)

// loop runs n clients for a while and returns what they got. It fails when one answer is not 200.
func (c *callers) loop(n int, during time.Duration) (s sample, err error) {
	threads := 1
	if c.core == anywhere {
		threads = min(n, 2)
	}
	return together(threads, during, func(i int, latencies *perf.Histogram) error {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := stayOn(c.core); err != nil {
			return err
		}
		return c.run((n+i)/threads, during, latencies)
	})
}

// side is that loop as a side that is compared.
func (c *callers) side(name string, n int, during time.Duration) side {
	return side{name, func() (sample, error) { return c.loop(n, during) }}
}

// at returns the same clients of another server.
func (c *callers) at(address, path string) *callers {
	other := *c
	other.address, other.path = address, path
	return &other
}

// run serves n connections for a while.
func (c *callers) run(n int, during time.Duration, latencies *perf.Histogram) error {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(poll) }()
	all := make([]caller, n)
	for i := range all {
		if all[i].fd, err = connect(c.address); err != nil {
			return err
		}
		defer func() { _ = unix.Close(all[i].fd) }()
		all[i].answer = make([]byte, 0, answerBytes)
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET&0xffffffff, Fd: int32(i)}
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, all[i].fd, &event); err != nil {
			return err
		}
	}
	request := c.request()
	l := &loop{poll: poll, all: all, request: request, events: make([]unix.EpollEvent, n), spin: c.core != anywhere}
	now := time.Now()
	for i := range all {
		if err := all[i].send(request, now); err != nil {
			return err
		}
	}
	if err := l.until(time.Now().Add(warmTime)); err != nil {
		return err
	}
	l.latencies = perf.Histogram{}
	begin := time.Now()
	if err := l.until(begin.Add(during)); err != nil {
		return err
	}
	*latencies = l.latencies
	return l.drain()
}

// request is what each client sends.
func (c *callers) request() []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", c.path, c.headers,
		len(c.body), c.body)
}

// loop is the state of callers.run.
type loop struct {
	poll      int
	all       []caller
	events    []unix.EpollEvent
	request   []byte
	latencies perf.Histogram
	spin      bool
	idle      int // clients that wait for nothing, while draining
}

// until lets the clients go on until a time.
func (l *loop) until(end time.Time) error {
	for now := time.Now(); now.Before(end); {
		ready, err := l.wait()
		if err != nil {
			return err
		}
		for _, e := range ready {
			one := &l.all[e.Fd]
			complete, err := one.proceed()
			if err != nil {
				return err
			}
			if now = time.Now(); !complete {
				continue
			}
			l.latencies.Record(now.Sub(one.since))
			if err := one.send(l.request, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain waits for the answers that are on their way, so that the server does not work for them in the next sample.
func (l *loop) drain() error {
	for l.idle < len(l.all) {
		ready, err := l.wait()
		if err != nil {
			return err
		}
		for _, e := range ready {
			complete, err := l.all[e.Fd].proceed()
			if err != nil {
				return err
			}
			if complete {
				l.idle++
			}
		}
	}
	return nil
}

// wait returns what has become ready. With a core of its own the loop does not sleep: a server pays for waking whoever
// it answers, and clients on other machines would not cost it that.
func (l *loop) wait() ([]unix.EpollEvent, error) {
	timeout := int(stallTime / time.Millisecond)
	if l.spin {
		timeout = 0
	}
	for begin := time.Now(); ; {
		n, err := untoldWait(l.poll, l.events, timeout)
		switch {
		case n > 0:
			return l.events[:n], nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return nil, err
		case time.Since(begin) >= stallTime:
			return nil, errors.New("the server has stopped answering")
		}
	}
}

// connect makes a socket that does not block.
func connect(address string) (fd int, err error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	if fd, err = unix.Dup(int(file.Fd())); err != nil {
		return 0, err
	}
	// BBR, where it is the system's choice, paces what is sent: on loopback its timers wake both sides for every few
	// packets.
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	return fd, unix.SetNonblock(fd, true)
}

func (c *caller) send(request []byte, now time.Time) error {
	c.rest, c.answer, c.since = request, c.answer[:0], now
	return c.write()
}

func (c *caller) write() error {
	for len(c.rest) > 0 {
		n, err := untoldWrite(c.fd, c.rest)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		c.rest = c.rest[n:]
	}
	return nil
}

// proceed does what the socket is ready for and tells whether the answer is complete.
func (c *caller) proceed() (bool, error) {
	if len(c.rest) > 0 {
		return false, c.write()
	}
	n, err := untoldRead(c.fd, c.answer[len(c.answer):cap(c.answer)])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, errors.New("the server closed the connection")
	}
	c.answer = c.answer[:len(c.answer)+n]
	return whole(c.answer)
}

// whole tells whether an answer is there to its end. Errors: an answer that is not 200, or one without a length.
func whole(answer []byte) (bool, error) {
	end := bytes.Index(answer, []byte("\r\n\r\n"))
	if end < 0 {
		return false, nil
	}
	head := answer[:end+2]
	length, err := lengthOf(head)
	if err != nil || len(answer) < end+4+length {
		return false, err
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return false, fmt.Errorf("the server answered: %.400q", answer)
	}
	return true, nil
}

func lengthOf(head []byte) (int, error) {
	for _, name := range []string{"\nContent-Length: ", "\ncontent-length: "} {
		if _, value, ok := bytes.Cut(head, []byte(name)); ok {
			digits, _, _ := bytes.Cut(value, []byte{'\r'})
			return strconv.Atoi(strings.TrimSpace(string(digits)))
		}
	}
	return 0, fmt.Errorf("an answer without a length: %.200q", head)
}
