package listen

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a listener that fails with errors before it hands out a connection, again and again.
type scripted struct {
	mu     sync.Mutex
	errors []error
	next   int
	calls  []time.Time
	closed chan struct{}
}

func newScripted(errs ...error) *scripted {
	return &scripted{errors: errs, closed: make(chan struct{})}
}

func (s *scripted) Accept() (net.Conn, error) {
	select {
	case <-s.closed:
		return nil, net.ErrClosed
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	if s.next < len(s.errors) {
		s.next++
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: s.errors[s.next-1]}
	}
	a, _ := net.Pipe()
	return a, nil
}

func (s *scripted) Close() error {
	close(s.closed)
	return nil
}
func (s *scripted) Addr() net.Addr { return &net.TCPAddr{} }

func options(max int, out io.Writer) Options {
	return Options{Max: max, Key: "test.max_connections", Log: slog.New(slog.NewTextHandler(out, nil))}
}

func TestAFailingAcceptIsTriedAgain(t *testing.T) {
	for _, number := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED, syscall.EPROTO,
		syscall.ENETDOWN, syscall.EHOSTUNREACH, syscall.EPERM,
	} {
		t.Run(number.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				inner := newScripted(number, number, number, number, number, number, number, number, number, number)
				l := New(inner, options(1, &log))
				c, err := l.Accept()
				if err != nil {
					t.Fatalf("the listener ended: %v", err)
				}
				_ = c.Close()
				var waits []time.Duration
				for i := 1; i < len(inner.calls); i++ {
					waits = append(waits, inner.calls[i].Sub(inner.calls[i-1]))
				}
				if waits[0] != firstWait || waits[1] != 2*firstWait || waits[9] != lastWait {
					t.Errorf("it waited %v", waits)
				}
				if n := strings.Count(log.String(), "\n"); n != 2 {
					t.Errorf("%d lines for one row of failures:\n%s", n, log.String())
				}
				if number == syscall.EMFILE && !strings.Contains(log.String(), "files at once (ulimit -n, LimitNOFILE=)") {
					t.Errorf("the limit is not named:\n%s", log.String())
				}
			})
		})
	}
}

func TestAListenerThatIsBrokenEnds(t *testing.T) {
	for _, broken := range []error{syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, net.ErrClosed, io.EOF} {
		l := New(newScripted(broken), options(1, io.Discard))
		if _, err := l.Accept(); !errors.Is(err, broken) {
			t.Errorf("%v: %v", broken, err)
		}
	}
}

func TestClosingEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := make([]error, 100)
		for i := range failures {
			failures[i] = syscall.EMFILE
		}
		l := New(newScripted(failures...), options(1, io.Discard))
		ended := make(chan time.Time, 1)
		go func() {
			_, _ = l.Accept()
			ended <- time.Now()
		}()
		time.Sleep(10*time.Second + 100*time.Millisecond) // in the middle of a wait
		closed := time.Now()
		_ = l.Close()
		if at := <-ended; !at.Equal(closed) {
			t.Errorf("Accept returned %v after Close", at.Sub(closed))
		}
	})
}

func TestConnectionsAreBoundedByListenerAndTogether(t *testing.T) {
	budget := newBudget(6)
	var refused []string
	o := options(2, io.Discard)
	o.Budget, o.Refuse = budget, func(_ net.Conn, why error) { refused = append(refused, why.Error()) }
	one, two := New(newScripted(), o), New(newScripted(), o)
	var open []net.Conn
	for _, l := range []*Listener{one, one, two} {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	wants := func(l *Listener, text string) {
		t.Helper()
		if err := l.admit(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	wants(one, "2 connections are open, which is the limit (test.max_connections)")
	wants(two, "3 connections are open at all ports together")
	wants(two, "half of the 6 files that the process may open")
	_ = open[0].Close()
	_ = open[0].Close()
	if one.Open() != 1 || two.Open() != 1 || budget.open.Load() != 2 {
		t.Errorf("%d, %d and %d are counted, want 1, 1 and 2", one.Open(), two.Open(), budget.open.Load())
	}
	if c, err := two.Accept(); err != nil || len(refused) != 0 {
		t.Errorf("%v %v: %v", c, err, refused)
	}
}

func TestAShortBudgetIsTold(t *testing.T) {
	if text := newBudget(256).Short(128); text != "" {
		t.Errorf("128 of 256: %s", text)
	}
	if text := newBudget(256).Short(2112); !strings.Contains(text, "2112 connections are allowed by the configuration, "+
		"and 128 are taken") {
		t.Errorf("2112 of 256: %s", text)
	}
}
