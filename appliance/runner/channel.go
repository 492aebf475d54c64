package runner

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// channel carries one run at a time: frames through shared memory, and descriptors through a socket.
type channel struct {
	id                uint64
	member            *Instance
	fd                int // of the socket
	memory            []byte
	requests, answers *mailbox
	background        bool          // for runs in the background, on a thread that gives way to all others
	run               atomic.Uint64 // the number of the run in progress, 0 between runs
	core              int           // on which the child's thread waits
	buf               []byte
}

func (l *channel) close() {
	l.answers.wakePipe.close()
	_ = unix.Close(l.fd)
	_ = unix.Munmap(l.memory)
}

// send hands a frame to the child, with descriptors beside it.
func (l *channel) send(frame []byte, descriptors []int) error {
	if len(descriptors) == 0 {
		l.requests.post(frame)
		return nil
	}
	err := send(l.fd, frame, descriptors, 0)
	if err == nil {
		l.requests.post(nil)
	}
	return err
}

// receive waits for the answer to a run with plan b. Errors: io.EOF when the child has ended, errFrame.
func (l *channel) receive(b waitPlan) ([]byte, error) {
	answer, err := l.answers.receive(l.buf, b.park)
	if err == nil && len(answer) == 0 {
		return nil, errFrame
	}
	return answer, err
}

// acquire plans a run of a member and returns an idle channel, a new one, or the next one that is returned.
func (p *process) acquire(ctx context.Context, i *Instance, options edgewise.RunOptions) (*channel, waitPlan, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, waitPlan{}, ctx.Err()
		}
	}
	b := planWait(options)
	if l := p.choose(i, b.core, options.Background); l != nil {
		return l, b, nil
	}
	l, err := p.open(i, options.Background)
	if err != nil {
		<-p.slots
	}
	return l, b, host.NameLimit(err)
}

// choose removes an idle channel of a member from the list, one for runs in the background or another. It returns nil
// when none is idle, or none on the core while there may be more channels.
func (p *process) choose(m *Instance, core int, background bool) *channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for n, l := range p.idle {
		if l.member == m && l.background == background && (best < 0 || l.core == core || p.idle[best].core != core) {
			best = n
		}
	}
	if best < 0 || p.idle[best].core != core && core != anywhere && p.channelsOf(m) < min(runtime.NumCPU(), coreChannels) {
		return nil
	}
	l := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return l
}

// channelsOf counts the channels of a member whose runs may be kept on a core. The caller holds mu.
func (p *process) channelsOf(m *Instance) (n int) {
	for _, l := range p.all {
		if l.member == m && !l.background {
			n++
		}
	}
	return n
}

// coreChannels bounds the channels of a version that are made to have one on each core.
const coreChannels = 16

// open makes a channel of a member and sends the child its ends.
func (p *process) open(m *Instance, background bool) (*channel, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, channelError(m, err)
	}
	defer func() { _ = unix.Close(theirs) }()
	file, memory, err := newShared(channelBytes)
	if err != nil {
		_ = unix.Close(ours)
		return nil, channelError(m, err)
	}
	defer func() { _ = unix.Close(file) }()
	ring, err := newWakePipe()
	if err != nil {
		_ = unix.Close(ours)
		_ = unix.Munmap(memory)
		return nil, channelError(m, err)
	}
	defer func() { _ = unix.Close(ring.fd) }()
	l := &channel{
		member: m, fd: ours, core: anywhere, background: background, memory: memory, buf: make([]byte, maxFrame),
	}
	l.requests, l.answers = mailboxes(memory)
	l.answers.wakePipe = ring
	p.mu.Lock()
	defer p.mu.Unlock()
	err = unix.EPIPE
	if !p.over && !p.fallen {
		p.made++
		l.id = p.made
		frame := pair{l.id, p.index(m)}.append(nil, map[bool]kind{false: kindChannel, true: kindBackground}[background])
		err = send(p.control, frame, []int{theirs, file, ring.fd}, 0)
	}
	if err != nil {
		l.close()
		return nil, edgewise.Errorf("runner.Run", edgewise.Unavailable, "model %v: %s has just ended: %w", m.id,
			p.group.noun(), err)
	}
	p.all = append(p.all, l)
	return l, nil
}

func channelError(m *Instance, err error) error {
	return edgewise.Errorf("runner.Run", edgewise.Exhausted, "model %v: a channel for one more run: %w", m.id, err)
}

// dismiss makes the child unload a member that has no run in progress, and closes its channels.
func (p *process) dismiss(m *Instance) {
	p.tell(pair{a: p.index(m)}.append(nil, kindUnload))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(l *channel) bool {
		if l.member != m {
			return false
		}
		p.all = slices.DeleteFunc(p.all, func(other *channel) bool { return other == l })
		l.requests.end()
		l.close()
		return true
	})
}

// release returns a channel, whose thread now waits on a core.
func (p *process) release(l *channel, core int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.core = core; p.over {
		l.close()
	} else {
		p.idle = append(p.idle, l)
	}
	<-p.slots
}
