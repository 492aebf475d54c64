package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

// callers are clients that send one prepared request over and over, each on a connection of its own.
type callers struct {
	address string
	path    string
	fields  string // whole lines of the head
	body    []byte
	core    int // that the thread of a closed loop is kept on, or anywhere
}

const (
	octets     = "Content-Type: application/octet-stream\r\n"
	stallTime  = 10 * time.Second
	warmTime   = 100 * time.Millisecond
	headBytes  = 16 << 10  // of an answer
	readBuffer = 256 << 10 // of a connection
)

// callers makes clients that send a tensor; where to is not said yet.
func (r *run) callers(in edgewise.Tensor, form kserve.Form, core int) *callers {
	body, jsonSize, err := kserve.AppendInferRequest(nil, &edgewise.Request{Inputs: []edgewise.Tensor{in}}, form, form)
	r.check(err)
	fields := "Content-Type: application/json\r\n"
	if form == kserve.Binary {
		fields = fmt.Sprintf("%s%s: %d\r\n", octets, kserve.HeaderLength, jsonSize)
	}
	return &callers{fields: fields, body: body, core: core}
}

// at returns the same clients of another server.
func (c *callers) at(address, path string) *callers {
	other := *c
	other.address, other.path = address, path
	return &other
}

func (c *callers) request() (*perf.Request, error) {
	return perf.NewPost("http://"+c.address, c.path, c.fields, c.body)
}

// openLoop sends requests at times that do not depend on the answers, and that a seed determines, in three windows. A
// latency counts from when the request was due.
func (c *callers) openLoop(rate float64, o perf.Options) (perf.Step, error) {
	o.Stability, o.MaxWindows, o.Timeout, o.Batch = 100, 3, 10*time.Second, 1
	request, err := c.request()
	if err != nil {
		return perf.Step{}, err
	}
	steps, err := perf.Run(context.Background(), request, o, []perf.Load{{Rate: rate}}, nil)
	if err == nil && len(steps) != 1 {
		err = fmt.Errorf("%d steps", len(steps))
	}
	if err != nil {
		return perf.Step{}, err
	}
	return steps[0], nil
}

// dial makes a client of perf.
func (c *callers) dial() (exchange func() error, hangUp func(), err error) {
	request, err := c.request()
	if err != nil {
		return nil, nil, err
	}
	exchange, hangUp = request.Dial(context.Background(), stallTime)
	return exchange, hangUp, nil
}

// side is a closed loop of n clients as a side that is compared.
func (c *callers) side(name string, n int, during time.Duration) side {
	return side{name, func() (sample, error) { return c.loop(n, during) }}
}

// loop runs n clients for a while, each of which waits for its answer before it asks again. It fails when one answer is
// not 200. It takes its time from the same cores as the server, so it does less than perf's closed loop: two threads, as
// the raw loop has two callers, or one with a core of its own, serve all connections with a write and a read a request.
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

// run serves n connections for a while.
func (c *callers) run(n int, during time.Duration, latencies *perf.Histogram) error {
	request, err := c.request()
	if err != nil {
		return err
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(poll) }()
	l := &loop{poll: poll, all: make([]caller, n), events: make([]unix.EpollEvent, n), request: request.Bytes(), spin: c.core != anywhere}
	for i := range l.all {
		fd, err := connect(c.address)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		l.all[i] = caller{fd: fd, buffer: make([]byte, readBuffer)}
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET&0xffffffff, Fd: int32(i)}
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return err
		}
	}
	for i, now := 0, time.Now(); i < n; i++ {
		if err := l.all[i].send(l.request, now); err != nil {
			return err
		}
	}
	if err := l.until(time.Now().Add(warmTime)); err != nil {
		return err
	}
	l.latencies = perf.Histogram{}
	if err := l.until(time.Now().Add(during)); err != nil {
		return err
	}
	*latencies = l.latencies
	return l.drain()
}

// connect makes a socket that does not block.
func connect(address string) (fd int, err error) {
	to, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return 0, err
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	// BBR, where it is the system's choice, paces what is sent: on loopback its timers wake both sides for every few
	// packets.
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	return fd, errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}), unix.SetNonblock(fd, true))
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
		if err := l.proceed(func(c *caller) error {
			now = time.Now()
			l.latencies.Record(now.Sub(c.since))
			return c.send(l.request, now)
		}); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for the answers that are on their way, so that the server does not work for them in the next sample.
func (l *loop) drain() error {
	for l.idle < len(l.all) {
		if err := l.proceed(func(*caller) error {
			l.idle++
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// proceed waits until a connection is ready, does what all that are ready are ready for, and calls answered for those
// whose answer is complete. With a core of its own the loop does not sleep: a server pays for waking whoever it
// answers, and clients on other machines would not cost it that.
func (l *loop) proceed(answered func(*caller) error) error {
	timeout := int(stallTime / time.Millisecond)
	if l.spin {
		timeout = 0
	}
	n := 0
	for begin := time.Now(); n == 0; {
		var err error
		n, err = untold(unix.SYS_EPOLL_PWAIT, l.poll, unsafe.Pointer(unsafe.SliceData(l.events)), len(l.events), timeout)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n == 0 && time.Since(begin) >= stallTime:
			return errors.New("the server has stopped answering")
		}
	}
	for _, e := range l.events[:n] {
		complete, err := l.all[e.Fd].proceed()
		if err == nil && complete {
			err = answered(&l.all[e.Fd])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// caller is one connection of a loop.
type caller struct {
	fd     int
	rest   []byte // of the request, not yet written
	buffer []byte
	head   int // bytes of the answer's head in buffer, until it is complete
	left   int // bytes of the answer's body that have yet to come, once its head is complete
	since  time.Time
}

func (c *caller) send(request []byte, now time.Time) error {
	c.rest, c.head, c.since = request, 0, now
	return c.write()
}

func (c *caller) write() error {
	for len(c.rest) > 0 {
		n, err := untold(unix.SYS_WRITE, c.fd, unsafe.Pointer(unsafe.SliceData(c.rest)), len(c.rest), 0)
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
func (c *caller) proceed() (complete bool, err error) {
	if len(c.rest) > 0 {
		return false, c.write()
	}
	for {
		into := c.buffer[max(c.head, 0):]
		n, err := untold(unix.SYS_READ, c.fd, unsafe.Pointer(unsafe.SliceData(into)), len(into), 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, err
		case n == 0:
			return false, errors.New("the server closed the connection")
		case c.head < 0:
			c.left -= n
		default:
			c.head += n
			left, whole, err := bodyLeft(c.buffer[:c.head])
			if err != nil {
				return false, err
			}
			if whole {
				c.head, c.left = -1, left
			}
		}
		if c.head < 0 && c.left <= 0 || n < len(into) {
			return c.head < 0 && c.left <= 0, nil
		}
	}
}

// bodyLeft tells whether the head of an answer is there to its end, and how much of its body is not. Errors: an answer
// that is not 200, or one without a length.
func bodyLeft(answer []byte) (left int, whole bool, err error) {
	end := bytes.Index(answer, []byte("\r\n\r\n"))
	if end < 0 {
		if len(answer) >= headBytes {
			err = fmt.Errorf("an answer whose head has no end: %.200q", answer)
		}
		return 0, false, err
	}
	head := answer[:end+2]
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return 0, false, fmt.Errorf("the server answered: %.400q", answer)
	}
	for _, name := range []string{"\nContent-Length: ", "\ncontent-length: "} {
		if _, value, ok := bytes.Cut(head, []byte(name)); ok {
			digits, _, _ := bytes.Cut(value, []byte{'\r'})
			length, err := strconv.Atoi(strings.TrimSpace(string(digits)))
			return end + 4 + length - len(answer), true, err
		}
	}
	return 0, false, fmt.Errorf("an answer without a length: %.200q", head)
}

// untold is a system call that Go's scheduler is not told of. It takes a call that lasts for one that blocks, and its
// monitor then looks every 20 us whether there are more of them: that took the load a fifth of one of the two cores,
// from the servers that are measured beside it. The thread of the load has a core of Go's scheduler to itself, so
// nobody waits for that.
func untold(call uintptr, fd int, data unsafe.Pointer, n, timeout int) (int, error) {
	r, _, number := unix.RawSyscall6(call, uintptr(fd), uintptr(data), uintptr(n), uintptr(timeout), 0, 0)
	if number != 0 {
		return 0, number
	}
	return int(r), nil
}
