package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Version is the version of the protocol. It stands in START, and in EnvironmentKey for a program that wants to know
// how it was started.
const (
	Version        = 1
	EnvironmentKey = "EDGEWISE_BACKEND"
)

// File descriptors of a backend's process.
const (
	SocketFD = 3 // a Unix stream socket
	InputFD  = 4 // the input memory, to be read
	OutputFD = 5 // the output memory, to be read and written
)

// MaxFrame bounds a frame in bytes, its length field not counted.
const MaxFrame = 1 << 20

// MaxUntaken bounds the responses of one call that stand in the output memory and that the server has not given back.
const MaxUntaken = 64

// Kind is the kind of a frame. What the server sends is below 32.
type Kind uint8

// The kinds of frames.
const (
	KindStart  Kind = 1
	KindRun    Kind = 2
	KindCancel Kind = 3
	KindTaken  Kind = 4
	KindReply  Kind = 5
	KindStop   Kind = 6
	KindPing   Kind = 7
	KindAnswer Kind = 8
	KindCheck  Kind = 9

	KindReady    Kind = 33
	KindResponse Kind = 34
	KindDone     Kind = 35
	KindExec     Kind = 36
	KindDrop     Kind = 37
	KindRead     Kind = 38
	KindLog      Kind = 39
	KindMetric   Kind = 40
	KindPong     Kind = 41
	KindControl  Kind = 42
	KindChecked  Kind = 43
)

// ErrProtocol is in every error that says that the other side broke the protocol.
var ErrProtocol = errors.New("the protocol is broken")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// begin appends the head of a frame, whose length finish fills in.
func begin(b []byte, k Kind) []byte { return append(b, 0, 0, 0, 0, byte(k)) }

// finish fills in the length of the frame that begins at start.
func finish(b []byte, start int) ([]byte, error) {
	n := len(b) - start - 4
	if n > MaxFrame {
		return b[:start], fmt.Errorf("a message of %d bytes exceeds the %d bytes of a frame", n, MaxFrame)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(n))
	return b, nil
}

// socket is one end of a connection, a blocking one: one goroutine reads at a time, any may write.
type socket struct {
	file *os.File
	// how long a write may take before the connection is given up; 0: without end
	patience time.Duration

	buf      []byte
	from, to int // what stands in buf and was not returned

	mu sync.Mutex // guards writing
}

func newSocket(file *os.File, patience time.Duration) *socket {
	return &socket{file: file, patience: patience, buf: make([]byte, 16<<10)}
}

// next waits for the next frame. body is valid until next or fill is called again. Errors: those of frame and fill.
func (s *socket) next() (k Kind, body []byte, err error) {
	for {
		k, body, ok, err := s.frame()
		if ok || err != nil {
			return k, body, err
		}
		if err := s.fill(); err != nil {
			return 0, nil, err
		}
	}
}

// frame returns the next frame, as far as it has been read; ok is false when it has not. body is valid until fill is
// called. Error: ErrProtocol.
func (s *socket) frame() (k Kind, body []byte, ok bool, err error) {
	have := s.buf[s.from:s.to]
	if len(have) < headBytes {
		return 0, nil, false, nil
	}
	n := binary.LittleEndian.Uint32(have)
	if n == 0 || n > MaxFrame {
		return 0, nil, false, broken("a frame of %d bytes, want 1 to %d", n, MaxFrame)
	}
	if len(have) < headBytes+int(n) {
		return 0, nil, false, nil
	}
	s.from += headBytes + int(n)
	return Kind(have[headBytes]), have[headBytes+1 : headBytes+int(n)], true, nil
}

// headBytes is the length field of a frame.
const headBytes = 4

// fill reads once, behind what frame has not returned. Errors: io.EOF between two frames, io.ErrUnexpectedEOF within
// one, errSilent.
func (s *socket) fill() error {
	if s.from == s.to {
		s.from, s.to = 0, 0
	}
	if s.from > 0 || s.to == len(s.buf) {
		into := s.buf
		if s.to-s.from > len(into)/2 {
			into = make([]byte, min(2*len(into), headBytes+MaxFrame))
		}
		s.to = copy(into, s.buf[s.from:s.to])
		s.buf, s.from = into, 0
	}
	n, err := s.file.Read(s.buf[s.to:])
	s.to += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, unix.EAGAIN):
		return errSilent
	case errors.Is(err, io.EOF) && s.to > s.from:
		return io.ErrUnexpectedEOF
	}
	return err
}

// errSilent says that nothing has come within the time that the socket waits.
var errSilent = errors.New("the other side has sent nothing")

// writePart is how much is written at once. The kernel waits for room for it once.
const writePart = 32 << 10

// write sends whole frames. Error: os.ErrDeadlineExceeded when the other side did not read for patience; then a part may
// have been sent.
func (s *socket) write(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var began time.Time
	for len(frames) > 0 {
		n, err := s.file.Write(frames[:min(len(frames), writePart)])
		frames = frames[n:]
		switch {
		case errors.Is(err, unix.EAGAIN):
			return os.ErrDeadlineExceeded
		case err != nil:
			return err
		case len(frames) == 0 || s.patience == 0:
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > s.patience:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

func (s *socket) close() error { return s.file.Close() }
