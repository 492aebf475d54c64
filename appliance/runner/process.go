package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// program starts the running program again, also after its file has been replaced.
const program = "/proc/self/exe"

// Descriptors of a child.
const (
	controlFD = 3 // the socket whose end ends the child
	taskFD    = 4 // a memory file with the task
)

// process is one child. It is over once dead is closed and end has returned.
type process struct {
	group      *group
	members    []*Instance
	pid        int
	generation uint64
	control    int
	slots      chan struct{}  // holds one token for each run in progress
	users      sync.WaitGroup // runs that were sent here; see group.put
	runs       atomic.Uint64
	kernel     *os.Process
	dead       chan struct{}
	cause      string // why it ended; read after dead
	logging    sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the use of control for sending
	reason string     // why it was killed, empty when it was not
	made   uint64     // channels so far
	all    []*channel // those that have been made
	idle   []*channel // those that carry no run
	fallen bool       // the child has ended
	over   bool       // control is closed
}

// spawn starts a child for some versions.
func (b *Backend) spawn(g *group, members []*Instance, generation uint64) (*process, error) {
	content, err := b.task(members)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	file, err := memory(content)
	if err != nil {
		_ = unix.Close(ours)
		_ = unix.Close(theirs)
		return nil, err
	}
	p := &process{
		group: g, members: members, generation: generation, control: ours, dead: make(chan struct{}),
		slots: make(chan struct{}, b.config.MaxRuns),
	}
	child := os.NewFile(uintptr(theirs), "control")
	started := make(chan error, 1)
	go p.own(b, b.access(members), []*os.File{child, file}, started)
	err = <-started
	_ = child.Close()
	_ = file.Close()
	if err != nil {
		_ = unix.Close(ours)
		return p, err
	}
	if err := host.EndEarly(p.pid, host.ScoreOfModels); err != nil {
		b.config.Logger.Warn("the kernel may end the box before a model when memory runs out", "pid", p.pid, "error", err)
	}
	return p, nil
}

// task says what the child of some versions is to load.
func (b *Backend) task(members []*Instance) ([]byte, error) {
	options, err := json.Marshal(b.config.Options)
	if err != nil {
		return nil, err
	}
	t := task{Options: options, AddressSpace: b.config.AddressSpace, LoadSeconds: seconds(b.config.LoadTime)}
	for _, i := range members {
		t.Members = append(t.Members, i.task)
	}
	return json.Marshal(t)
}

// access is what the child of some versions may read and use.
func (b *Backend) access(members []*Instance) Access {
	c := &b.config
	a := Access{Environment: append([]string{}, c.Environment...), ReadPaths: append([]string{}, c.ReadPaths...)}
	onGPU := false
	for _, i := range members {
		a.ReadPaths = append(a.ReadPaths, i.task.Dir)
		onGPU = onGPU || i.task.Device.Kind == edgewise.GPU
	}
	if onGPU && c.Device != nil {
		more := c.Device()
		a.Environment = append(a.Environment, more.Environment...)
		a.ReadPaths = append(a.ReadPaths, more.ReadPaths...)
		a.Devices = more.Devices
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

// childTimerSlack is by how many nanoseconds the timers of a child may be late, on all its threads: it has none that
// anybody waits for but those of Go's monitor, which looks every 20 us for threads that keep others waiting for as long
// as it finds one that runs a model. In a child there are no others.
const childTimerSlack = 5_000_000

// own starts the child and waits for its end, on a thread of its own that ends with it: the child dies with that thread
// should this process be killed, and the confinement that the child inherits from the thread touches no other.
func (p *process) own(b *Backend, a Access, files []*os.File, started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread is not to be used again
	if lacking := confine(a); lacking != nil {
		b.tell.Do(func() {
			b.config.Logger.Warn("the kernel does not keep the processes of models away from other files", "error", lacking)
		})
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, childTimerSlack, 0, 0, 0) // slower, and right all the same
	output, input, err := os.Pipe()
	if err != nil {
		started <- err
		return
	}
	cmd := &exec.Cmd{
		Path: program, Args: append([]string{title(p.members)}, b.config.Arguments...), Env: a.Environment, Dir: "/",
		Stdout: input, Stderr: input, ExtraFiles: files,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	err = cmd.Start()
	_ = input.Close()
	if err != nil {
		_ = output.Close()
		started <- err
		return
	}
	p.kernel, p.pid = cmd.Process, cmd.Process.Pid
	p.logging.Go(func() { forward(output, b.config.Logger.With(append(p.group.label(p.members), "pid", p.pid)...)) })
	started <- nil
	_ = cmd.Wait()
	p.mu.Lock()
	p.cause = p.reason
	if state := cmd.ProcessState; p.cause == "" || !killed(state) {
		p.cause = state.String()
	}
	p.fallen = true
	for _, l := range p.all {
		l.answers.end()
	}
	p.mu.Unlock()
	close(p.dead)
}

// killed tells whether a process ended as kill makes it end.
func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Bounds of what a child may write into the log.
const (
	maxLogLine  = 2048 // bytes; the rest of a line is dropped
	maxLogLines = 200  // of one child; the rest is read and dropped
)

// forward writes the lines of a child to the log.
func forward(output *os.File, logger *slog.Logger) {
	defer output.Close()
	reader := bufio.NewReaderSize(output, maxLogLine)
	whole := true
	for lines := 0; ; {
		line, err := reader.ReadSlice('\n')
		if whole && len(bytes.TrimSpace(line)) > 0 && lines < maxLogLines {
			lines++
			logger.Warn("the process of a model says", "line", string(bytes.TrimSpace(line)))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		whole = err == nil
	}
}

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
		p.kill("killed: its load took too long or was given up")
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
		p.await("killed: its socket was closed and it went on")
		return edgewise.Errorf("runner.Load", edgewise.Internal, "model %v: %s died (%s) while loading", p.newest(),
			p.group.noun(), p.cause)
	case err == nil && kind(frame[0]) == kindReady:
		RestorePriority(p.pid)
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

// kill ends the child at once. The first reason given is kept.
func (p *process) kill(reason string) {
	p.mu.Lock()
	if p.reason == "" {
		p.reason = reason
	}
	p.mu.Unlock()
	_ = p.kernel.Kill()
}

// farewell is how long a child may take to end by itself.
const farewell = time.Second

// await waits for the end of a child that is about to end, and kills it for a reason when it does not.
func (p *process) await(reason string) {
	select {
	case <-p.dead:
	case <-time.After(farewell):
		p.kill(reason)
		<-p.dead
	}
}

// end closes what belongs to the child, waits until it has ended, and kills it when it does not by itself.
func (p *process) end() {
	p.mu.Lock()
	if !p.fallen {
		giveWay(p.pid)
	}
	_ = unix.Shutdown(p.control, unix.SHUT_RDWR)
	p.mu.Unlock()
	p.await("killed: it did not end when it was told to")
	p.logging.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	_ = unix.Close(p.control)
	for _, l := range p.idle {
		l.close()
	}
	p.idle = nil
}

// tell sends a frame on the control socket. A child that does not read misses it: such a child is killed anyway.
func (p *process) tell(frame []byte, descriptors ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = send(p.control, frame, descriptors, unix.MSG_DONTWAIT)
	}
}

// memory returns a memory file with content, to be read from its start.
func memory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("edgewise-task", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "task")
	if _, err := f.WriteAt(content, 0); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
