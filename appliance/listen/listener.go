package listen

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// The wait after a failed accept doubles from firstWait to lastWait.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = time.Second
)

// Options say how a Listener accepts.
type Options struct {
	Max    int                         // connections open at once
	Key    string                      // what sets Max, for messages
	Budget *Budget                     // of all listeners together; nil: there is none
	Refuse func(c net.Conn, why error) // tells a client why its connection is closed; nil: nothing is said
	Log    *slog.Logger
}

// Listener accepts connections of which at most Max are open at once; those beyond are refused. An accept that fails
// for want of descriptors or memory is tried again until the listener is closed. It is safe for concurrent use.
type Listener struct {
	net.Listener
	options Options
	open    atomic.Int64
	once    sync.Once
	closed  chan struct{}
}

// New returns a Listener on ln, which it closes.
func New(ln net.Listener, o Options) *Listener {
	return &Listener{Listener: ln, options: o, closed: make(chan struct{})}
}

// Accept waits for the next connection within the bounds. The error is for good.
func (l *Listener) Accept() (net.Conn, error) {
	wait := time.Duration(0)
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			if !passing(err) || l.isClosed() {
				return nil, err
			}
			if wait == 0 {
				l.options.Log.Error("accepting a connection failed, and is tried again", "address", l.Addr().String(), "error",
					host.NameLimit(err))
			}
			wait = min(max(2*wait, firstWait), lastWait)
			l.pause(wait)
			continue
		}
		if wait > 0 {
			wait = 0
			l.options.Log.Info("connections are accepted again", "address", l.Addr().String())
		}
		if why := l.admit(); why != nil {
			if l.options.Refuse != nil {
				l.options.Refuse(inner, why)
			}
			_ = inner.Close()
			continue
		}
		return &Conn{Conn: inner, listener: l}, nil
	}
}

// Open returns how many connections are open.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Close stops listening. It may be called more than once.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// pause waits, or until the listener is closed.
func (l *Listener) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.closed:
	}
}

// admit counts one more connection. Errors: Busy, naming the bound.
func (l *Listener) admit() error {
	const op = "listen.admit"
	if l.open.Add(1) > int64(l.options.Max) {
		l.open.Add(-1)
		return edgewise.Errorf(op, edgewise.Busy, "%d connections are open, which is the limit (%s)", l.options.Max,
			l.options.Key).WithLimit(int64(l.options.Max))
	}
	if !l.options.Budget.take() {
		l.open.Add(-1)
		b := l.options.Budget
		return edgewise.Errorf(op, edgewise.Busy, "%d connections are open at all ports together, which is half of the %d "+
			"files that the process may open (ulimit -n, LimitNOFILE=)", b.max, b.files).WithLimit(b.max)
	}
	return nil
}

func (l *Listener) release() {
	l.open.Add(-1)
	l.options.Budget.give()
}

// Conn is a connection that is counted until it is closed.
type Conn struct {
	net.Conn
	listener *Listener
	once     sync.Once
}

// Close closes the connection. It may be called more than once.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.listener.release)
	return err
}

// passing tells whether an accept that failed may succeed later. accept(2) hands on errors of the network that waited
// on the new socket; only those about the listening socket itself are for good.
func passing(err error) bool {
	var number syscall.Errno
	if errors.Is(err, net.ErrClosed) || !errors.As(err, &number) {
		return false
	}
	return !slices.Contains([]syscall.Errno{syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, syscall.EFAULT}, number)
}

// Budget bounds the connections of all listeners of a process by the files that it may open: half of them, so that the
// other half is left for models, uploads and the store. A nil Budget has no bound.
type Budget struct {
	files uint64 // that the process may open
	max   int64
	open  atomic.Int64
}

// NewBudget reads the limit of the process.
func NewBudget() *Budget { return newBudget(host.OpenFiles()) }

func newBudget(files uint64) *Budget {
	return &Budget{files: files, max: int64(min(files/2, math.MaxInt64))}
}

// Short returns what to log when the budget is less than the connections that are configured, or "".
func (b *Budget) Short(configured int) string {
	if int64(configured) <= b.max {
		return ""
	}
	return fmt.Sprintf("%d connections are allowed by the configuration, and %d are taken: half of the %d files that "+
		"the process may open (ulimit -n, LimitNOFILE=)", configured, b.max, b.files)
}

// take counts a connection and tells whether there is room for it.
func (b *Budget) take() bool {
	if b == nil {
		return true
	}
	if b.open.Add(1) > b.max {
		b.open.Add(-1)
		return false
	}
	return true
}

func (b *Budget) give() {
	if b != nil {
		b.open.Add(-1)
	}
}
