package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/host"
)

// Descriptors of a child.
const (
	controlFD = 3 // the socket whose end ends the child
	taskFD    = 4 // a memory file with the task
)

// process is one child. It is over once Dead is closed and end has returned.
type process struct {
	*child.Process
	group      *group
	members    []*Instance
	generation uint64
	control    int
	slots      chan struct{}  // holds one token for each run in progress
	users      sync.WaitGroup // runs that were sent here; see group.put
	held       sync.WaitGroup // runs that have waited for the start, until they are over; see Instance.Rest
	runs       atomic.Uint64

	mu     sync.Mutex // guards what follows, and the use of control for sending
	made   uint64     // channels so far
	all    []*channel // those that have been made
	idle   []*channel // those that carry no run
	fallen bool       // the child has ended
	over   bool       // control is closed
}

// spawn starts a child for some versions.
func (b *Backend) spawn(g *group, members []*Instance, generation uint64, on Place) (*process, error) {
	content, err := b.task(members, g.missed(), on)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	file, err := child.Memory(content)
	if err != nil {
		_ = unix.Close(ours)
		_ = unix.Close(theirs)
		return nil, err
	}
	p := &process{
		group: g, members: members, generation: generation, control: ours,
		slots: make(chan struct{}, b.config.MaxRuns),
	}
	end := os.NewFile(uintptr(theirs), "control")
	logger := b.config.Logger.With(g.label(members)...)
	p.Process, err = child.Start(child.Command{
		Path: child.Program, Args: append([]string{title(members)}, b.config.Arguments...), Access: b.access(members, on),
		Files: []*os.File{end, file}, Line: log(logger), Unprotected: b.unprotected, Ended: p.fall,
	})
	_ = end.Close()
	_ = file.Close()
	if err != nil {
		_ = unix.Close(ours)
		return p, err
	}
	if err := host.EndEarly(p.PID, host.ScoreOfModels); err != nil {
		b.config.Logger.Warn("the kernel may end the box before a model when memory runs out", "pid", p.PID, "error", err)
	}
	return p, nil
}

// Cause is how the child has ended, after Dead is closed.
func (p *process) Cause() string {
	cause := p.Process.Cause()
	if cause == "exit status "+strconv.Itoa(deviceLost) {
		return "its device was lost"
	}
	return cause
}

// unprotected says once which protection the kernel lacks.
func (b *Backend) unprotected(lacking error) {
	b.tell.Do(func() {
		b.config.Logger.Warn("the kernel does not keep the processes of models away from other files", "error", lacking)
	})
}

// maxLogLines bounds what a child may write into the log: further lines are dropped.
const maxLogLines = 200

// log returns what writes the lines of a child to the log.
func log(logger *slog.Logger) func(int, []byte) {
	lines := 0
	return func(pid int, line []byte) {
		if lines++; lines <= maxLogLines {
			logger.Warn("the process of a model says", "pid", pid, "line", string(line))
		}
	}
}

// fall ends the channels of a child that has ended.
func (p *process) fall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fallen = true
	for _, l := range p.all {
		l.answers.end()
	}
}

// task says what the child of some versions is to load; again: see Start.
func (b *Backend) task(members []*Instance, again bool, on Place) ([]byte, error) {
	options, err := json.Marshal(b.config.Options)
	if err != nil {
		return nil, err
	}
	t := task{Options: options, AddressSpace: b.config.AddressSpace, LoadSeconds: seconds(b.config.LoadTime), Again: again}
	for _, i := range members {
		t.Members = append(t.Members, i.task)
	}
	if on.Kept != nil {
		t.Kept = on.Kept.Path()
	}
	return json.Marshal(t)
}

// place is what the child of some versions has on its device. Only versions on the CPU share a child.
func (b *Backend) place(members []*Instance) Place {
	on := members[0].task.Device
	if on.Kind == edgewise.CPU || b.config.Device == nil {
		return Place{}
	}
	return b.config.Device(members[0].task.Version, on)
}

// access is what the child of some versions may read and use.
func (b *Backend) access(members []*Instance, on Place) child.Access {
	a := child.Access{
		Environment: slices.Concat(b.config.Environment, on.Environment),
		ReadPaths:   slices.Concat(b.config.ReadPaths, on.ReadPaths),
		WritePaths:  on.WritePaths, Devices: on.Devices,
	}
	for _, i := range members {
		a.ReadPaths = append(a.ReadPaths, i.task.Dir)
	}
	if on.Kept != nil {
		a.WritePaths = append(slices.Clip(a.WritePaths), on.Kept.Path())
	}
	return a
}

// maxTitle bounds the name that a child has in lists of processes, in bytes.
const maxTitle = 200

// title names the versions of a child, for lists of processes: its first argument, which the program does not read.
func title(members []*Instance) string {
	var names []string
	for _, i := range members {
		names = append(names, i.id.Name+":"+strconv.FormatInt(i.id.Version, 10))
	}
	text := "edgewise [" + strings.Join(names, " ") + "]"
	return text[:min(len(text), maxTitle)]
}

// index is the number by which the child knows a member.
func (p *process) index(i *Instance) uint64 { return uint64(slices.Index(p.members, i)) }

// newest is the member that was added last: the one that is being loaded when the others have been before.
func (p *process) newest() edgewise.ModelID { return p.members[len(p.members)-1].id }

// loaded waits until the child has loaded its model or has failed to.
func (p *process) loaded(ctx context.Context) error {
	return p.verdict(p.first(ctx))
}

// first waits for the first thing that the child says. Errors: those of the socket; Deadline or Canceled, as an
// edgewise.Error.
func (p *process) first(ctx context.Context) ([]byte, error) {
	type answer struct {
		frame []byte
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		frame, err := receive(p.control, make([]byte, maxFrame))
		answers <- answer{frame, err}
	}()
	select {
	case a := <-answers:
		return a.frame, a.err
	case <-ctx.Done():
		p.Kill("killed: its load took too long or was given up")
		<-answers
		return nil, edgewise.Errorf("runner.Load", edgewise.KindOf(ctx.Err()), "model %v: its load was ended: %w", p.newest(),
			ctx.Err())
	}
}

// verdict reads what the child says of its load.
func (p *process) verdict(frame []byte, err error) error {
	if ended, ok := errors.AsType[*edgewise.Error](err); ok {
		return ended
	}
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET):
		p.Await(farewell, "killed: its socket was closed and it went on")
		return edgewise.Errorf("runner.Load", edgewise.Internal, "model %v: %s died (%s) while loading", p.newest(),
			p.group.noun(), p.Cause())
	case err == nil && kind(frame[0]) == kindReady:
		child.RestorePriority(p.PID)
		return nil
	case err == nil && kind(frame[0]) == kindFailed:
		f, decoding := decodeFailure(frame[1:])
		switch {
		case decoding == nil && f.run == uint64(len(p.members)-1):
			return edgewise.Errorf("runner.Load", f.kind, "%s", f.text)
		case decoding == nil && f.run < uint64(len(p.members)):
			return edgewise.Errorf("runner.Load", f.kind, "model %v, which shares %s, cannot be loaded again: %s",
				p.members[f.run].id, p.group.noun(), f.text)
		}
		err = decoding
	case err == nil:
		err = errFrame
	}
	return edgewise.Errorf("runner.Load", edgewise.Internal, "model %v: %s answered its load with a %w", p.newest(),
		p.group.noun(), err)
}

// farewell is how long a child may take to end by itself.
const farewell = time.Second

// end closes what belongs to the child, waits until it has ended, and kills it when it does not by itself. It gives way to
// what serves: giving memory back takes a core for some time.
func (p *process) end() {
	p.mu.Lock()
	if !p.fallen {
		child.GiveWay(p.PID)
	}
	p.mu.Unlock()
	p.endNow()
}

// endNow is end of a child whose memory somebody waits for.
func (p *process) endNow() {
	p.mu.Lock()
	_ = unix.Shutdown(p.control, unix.SHUT_RDWR)
	p.mu.Unlock()
	p.Await(farewell, "killed: it did not end when it was told to")
	p.Drain()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	_ = unix.Close(p.control)
	for _, l := range p.idle {
		l.close()
	}
	p.idle = nil
}

// retire ends the child after its last run. It takes no more runs.
func (p *process) retire() {
	p.users.Wait()
	p.end()
}

// tell sends a frame on the control socket. A child that does not read misses it: such a child is killed anyway.
func (p *process) tell(frame []byte, descriptors ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = send(p.control, frame, descriptors, unix.MSG_DONTWAIT)
	}
}
