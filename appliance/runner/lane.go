package runner

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// lane carries one run at a time: frames through a memory file, and descriptors through a socket.
type lane struct {
	id          uint64
	member      *Instance
	fd          int // of the socket
	memory      []byte
	there, back *mailbox
	run         atomic.Uint64 // the number of the run in progress, 0 between runs
	core        int           // on which the child's thread waits
	buf         []byte
}

func (l *lane) close() {
	l.back.bell.close()
	_ = unix.Close(l.fd)
	_ = unix.Munmap(l.memory)
}

// send hands a frame to the child, with descriptors beside it.
func (l *lane) send(frame []byte, descriptors []int) error {
	if len(descriptors) == 0 {
		l.there.post(frame)
		return nil
	}
	err := send(l.fd, frame, descriptors, 0)
	if err == nil {
		l.there.post(nil)
	}
	return err
}

// receive waits for an answer to a run that went to b. Errors: io.EOF when the child has ended, errFrame.
func (l *lane) receive(b berth) ([]byte, error) {
	answer, err := l.back.take(l.buf, b.lookAnswer, b.park)
	if err == nil && len(answer) == 0 {
		return nil, errFrame
	}
	return answer, err
}

// take chooses where a run of a member goes, and returns an idle lane whose thread waits there, or makes one, or returns another one,
// or waits for one.
func (p *process) take(ctx context.Context, i *Instance) (*lane, berth, error) {
	select {
	case p.room <- struct{}{}:
	default:
		select {
		case p.room <- struct{}{}:
		case <-ctx.Done():
			return nil, berth{}, ctx.Err()
		}
	}
	b := i.tempo.berth(len(p.room), edgewise.CallOf(ctx))
	if l := p.choose(i, b.core); l != nil {
		return l, b, nil
	}
	l, err := p.make(i)
	if err != nil {
		<-p.room
	}
	return l, b, edgewise.NameLimit(err)
}

// choose takes an idle lane of a member. It returns nil when there is none, or none on the core and there may be more.
func (p *process) choose(m *Instance, core int) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for n, l := range p.idle {
		if l.member == m && (best < 0 || l.core == core || p.idle[best].core != core) {
			best = n
		}
	}
	if best < 0 || p.idle[best].core != core && core != anywhere && p.lanesOf(m) < min(runtime.NumCPU(), coreLanes) {
		return nil
	}
	l := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return l
}

// lanesOf counts the lanes of a member. The caller holds mu.
func (p *process) lanesOf(m *Instance) (n int) {
	for _, l := range p.all {
		if l.member == m {
			n++
		}
	}
	return n
}

// coreLanes bounds the lanes of a version that are made to have one on each core.
const coreLanes = 16

// make hands the child its ends of a new lane of a member.
func (p *process) make(m *Instance) (*lane, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, noLane(m, err)
	}
	defer func() { _ = unix.Close(theirs) }()
	file, memory, err := newShared(laneBytes)
	if err != nil {
		_ = unix.Close(ours)
		return nil, noLane(m, err)
	}
	defer func() { _ = unix.Close(file) }()
	ring, err := newBell()
	if err != nil {
		_ = unix.Close(ours)
		_ = unix.Munmap(memory)
		return nil, noLane(m, err)
	}
	defer func() { _ = unix.Close(ring.fd) }()
	l := &lane{member: m, fd: ours, core: anywhere, memory: memory, buf: make([]byte, maxFrame)}
	l.there, l.back = mailboxes(memory)
	l.back.bell = ring
	p.mu.Lock()
	defer p.mu.Unlock()
	err = unix.EPIPE
	if !p.over && !p.fallen {
		p.made++
		l.id = p.made
		err = send(p.control, pair{l.id, p.index(m)}.append(nil, kindLane), []int{theirs, file, ring.fd}, 0)
	}
	if err != nil {
		l.close()
		return nil, edgewise.Errorf("runner.Run", edgewise.Unavailable, "model %v: %s has just ended: %w", m.id, p.group.noun(), err)
	}
	p.all = append(p.all, l)
	return l, nil
}

func noLane(m *Instance, err error) error {
	return edgewise.Errorf("runner.Run", edgewise.Exhausted, "model %v: a lane for one more run: %w", m.id, err)
}

// dismiss makes the child unload a member, of which no run is in progress, and ends its lanes.
func (p *process) dismiss(m *Instance) {
	p.tell(pair{a: p.index(m)}.append(nil, kindUnload))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(l *lane) bool {
		if l.member != m {
			return false
		}
		p.all = slices.DeleteFunc(p.all, func(other *lane) bool { return other == l })
		l.there.end()
		l.close()
		return true
	})
}

// give ends the use of a lane, whose thread now waits on a core.
func (p *process) give(l *lane, core int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.core = core; p.over {
		l.close()
	} else {
		p.idle = append(p.idle, l)
	}
	<-p.room // who waits for it finds a child that is gone
}
