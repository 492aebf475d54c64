package runner

import (
	"io"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout of a channel's memory: one mailbox for each direction.
const (
	mailboxHead  = 64 // bytes: the word, whether its reader sleeps, and the frame's size
	mailboxBytes = mailboxHead + maxFrame
	channelBytes = 2 * mailboxBytes
)

// mailbox carries frames in one direction of a channel through memory that both sides map, one frame at a time. The
// writer stores the frame, increments the word, and wakes the reader if it sleeps. The reader sleeps until the word
// changes; it never spins (decision 0074).
//
// Nothing that the other side can write is trusted: the size is bounded, and a frame is copied before it is decoded.
type mailbox struct {
	word     *atomic.Uint32 // counts frames in steps of frameStep, and has the bit ended; the kernel's futex
	asleep   *atomic.Uint32 // how the reader is about to sleep, or sleeps; see below
	size     *atomic.Uint32
	frame    []byte    // of maxFrame bytes
	seen     uint32    // the word as the reader knows it
	wakePipe *wakePipe // on which a parked reader sleeps; nil: it sleeps in the kernel
}

// How a mailbox's reader sleeps.
const (
	awake    = 0
	inKernel = 1 // on the word, with its thread
	parked   = 2 // on the wake pipe, without its thread
)

// mailboxes divides a channel's memory: requests to the child, and its answers.
func mailboxes(memory []byte) (requests, answers *mailbox) {
	return newMailbox(memory[:mailboxBytes]), newMailbox(memory[mailboxBytes:channelBytes])
}

func newMailbox(memory []byte) *mailbox {
	word := func(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&memory[at])) }
	return &mailbox{
		word: word(0), asleep: word(4), size: word(8), frame: memory[mailboxHead:mailboxBytes:mailboxBytes],
	}
}

// post hands a frame of at most maxFrame bytes over. One of no bytes says that the frame is in the channel's socket,
// with descriptors beside it.
func (m *mailbox) post(frame []byte) {
	copy(m.frame, frame)
	m.size.Store(uint32(len(frame)))
	m.word.Add(frameStep)
	m.wake()
}

// end says that no more frames will come. It wakes the reader however it says that it sleeps: the memory belongs to the
// other side, too. A reader on the wake pipe sees that the write end is closed.
func (m *mailbox) end() {
	m.word.Or(ended)
	m.wakeInKernel()
}

func (m *mailbox) wake() {
	switch m.asleep.Swap(awake) {
	case parked:
		m.wakePipe.wake()
	case inKernel:
		m.wakeInKernel()
	}
}

func (m *mailbox) wakeInKernel() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(m.word)), futexWake, 1, 0, 0, 0)
}

// Parts of a mailbox's word.
const (
	ended     = 1
	frameStep = 2
)

// The kernel's numbers of what is done with a futex that processes share.
const (
	futexWait = 0
	futexWake = 1
)

// wait returns true when there is a frame, and false when there will be none.
func (m *mailbox) wait(park bool) bool {
	if m.seen&ended != 0 {
		return false
	}
	for m.word.Load() == m.seen {
		park = m.sleep(park)
	}
	now := m.word.Load()
	came := now&^ended != m.seen&^ended
	m.seen = now
	return came
}

// sleep sleeps until the word differs from seen, or a little less. It tells whether it may be parked again.
func (m *mailbox) sleep(park bool) bool {
	how := uint32(inKernel)
	if park = park && m.wakePipe != nil; park {
		how = parked
	}
	m.asleep.Store(how)
	defer m.asleep.Store(awake)
	switch {
	case m.word.Load() != m.seen:
	case park:
		return m.wakePipe.wait()
	default:
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(m.word)), futexWait, uintptr(m.seen), 0, 0, 0)
	}
	return park
}

// receive waits for a frame, as wait does, and copies it into buf, which has maxFrame bytes. Errors: errFrame when it
// is longer, io.EOF when there will be none.
func (m *mailbox) receive(buf []byte, park bool) ([]byte, error) {
	if !m.wait(park) {
		return nil, io.EOF
	}
	size := m.size.Load()
	if size > maxFrame {
		return nil, errFrame
	}
	return buf[:copy(buf[:size], m.frame)], nil
}
