package backend

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The goroutine of Client.Await reads the socket in a read that blocks: the kernel wakes its thread with the answer, and
// nobody hands it over. While there is no Await, the goroutine of Client.Serve waits in Go's poller, reads once when
// something has come, and waits again. It waits for an epoll file that holds the socket, where Await turns the socket off:
// else each answer would wake both.

// leadTime is how long Await reads while nothing comes, before Serve does. In that time the end of its context is not
// seen.
const leadTime = 2 * time.Millisecond

// clientTurn says who reads the socket of a Client.
type clientTurn struct {
	socket int
	epoll  int
	file   *os.File // of epoll: readable when Serve is to look at the socket
	waits  syscall.RawConn
	came   [1]unix.EpollEvent

	mu    sync.Mutex // guards what follows, and is held while the epoll file is changed
	taken bool       // somebody reads
	cause error      // why the connection ends; nobody begins to read then
}

func newClientTurn(socket *os.File) (*clientTurn, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Go's poller takes it
		_ = unix.Close(fd)
		return nil, err
	}
	t := &clientTurn{socket: int(socket.Fd()), epoll: fd, file: os.NewFile(uintptr(fd), "epoll")}
	if t.waits, err = t.file.SyscallConn(); err == nil {
		err = t.tell(unix.EPOLL_CTL_ADD, unix.EPOLLIN)
	}
	if err != nil {
		_ = t.file.Close()
		return nil, err
	}
	return t, nil
}

// tell sets what makes the epoll file readable, once: the end of the connection does in any case.
func (t *clientTurn) tell(operation int, events uint32) error {
	e := unix.EpollEvent{Events: events | unix.EPOLLONESHOT}
	return unix.EpollCtl(t.epoll, operation, t.socket, &e)
}

// take makes the caller the reader, unless somebody reads or the connection ends.
func (t *clientTurn) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken || t.cause != nil {
		return false
	}
	t.taken = t.tell(unix.EPOLL_CTL_MOD, 0) == nil
	return t.taken
}

// await waits until something has come while nobody reads, and makes the caller the reader then. Error: why the
// connection ends; nobody reads any more.
func (t *clientTurn) await() error {
	for {
		waiting := t.waits.Read(t.look)
		t.mu.Lock()
		idle := !t.taken
		cause := cmp.Or(t.cause, waiting)
		t.taken = t.taken || cause == nil
		t.mu.Unlock()
		if idle {
			return cause
		}
	}
}

// look tells whether the epoll file is readable, which it then is no more.
func (t *clientTurn) look(uintptr) bool {
	for {
		n, err := unix.EpollWait(t.epoll, t.came[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 || err != nil
		}
	}
}

// pass ends the caller's turn, with the error of its last read. An error but errSilent ends the connection, without
// telling the backend: whoever called Serve says first why.
func (t *clientTurn) pass(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	if !errors.Is(err, errSilent) {
		t.cause = cmp.Or(t.cause, err)
	}
	if t.cause == nil {
		t.cause = t.tell(unix.EPOLL_CTL_MOD, unix.EPOLLIN)
	}
	if t.cause != nil {
		_ = t.file.SetReadDeadline(time.Now()) // await returns
	}
}

// end ends the connection for a reason: who reads or waits sees it.
func (t *clientTurn) end(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause != nil {
		return
	}
	t.cause = cause
	_ = unix.Shutdown(t.socket, unix.SHUT_RDWR)
}

// close closes the epoll file. The socket may be closed then.
func (t *clientTurn) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cause = cmp.Or(t.cause, os.ErrClosed)
	_ = t.file.Close()
}
