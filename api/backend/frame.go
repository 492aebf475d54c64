package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
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

// socket is one end of a connection: one goroutine reads, any may write.
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

// next returns the next frame. body is valid until next is called again. Errors: io.EOF between two frames,
// io.ErrUnexpectedEOF within one, ErrProtocol.
func (s *socket) next() (k Kind, body []byte, err error) {
	if err := s.have(4); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(s.buf[s.from:])
	if n == 0 || n > MaxFrame {
		return 0, nil, broken("a frame of %d bytes, want 1 to %d", n, MaxFrame)
	}
	if err := s.have(4 + int(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	frame := s.buf[s.from+4 : s.from+4+int(n)]
	s.from += 4 + int(n)
	return Kind(frame[0]), frame[1:], nil
}

// have reads until n bytes stand in buf.
func (s *socket) have(n int) error {
	if s.from == s.to {
		s.from, s.to = 0, 0
	}
	if s.from+n > len(s.buf) {
		into := s.buf
		if n > len(into) {
			into = make([]byte, max(n, min(2*len(into), 4+MaxFrame)))
		}
		s.to = copy(into, s.buf[s.from:s.to])
		s.buf, s.from = into, 0
	}
	for s.to-s.from < n {
		m, err := s.file.Read(s.buf[s.to:])
		s.to += m
		if err != nil && s.to-s.from < n {
			if errors.Is(err, io.EOF) && s.to > s.from {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// write sends whole frames.
func (s *socket) write(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patience > 0 {
		_ = s.file.SetWriteDeadline(time.Now().Add(s.patience)) // a socket has one
	}
	_, err := s.file.Write(frames)
	if errors.Is(err, os.ErrDeadlineExceeded) { // a part may have been sent
		_ = s.file.Close()
	}
	return err
}

func (s *socket) close() error { return s.file.Close() }
