package child

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a child that is to be started.
type Command struct {
	Path   string
	Args   []string // the first one is its name in lists of processes
	Access Access
	Files  []*os.File // its descriptors from 3 on
	Dir    string     // its working folder; empty: "/"
	Input  *os.File   // its standard input; nil: it has none
	Output *os.File   // its standard output; nil: its lines are given to Line
	// Line is given each line that the child writes to its error output and its output, cut at MaxLine bytes and valid during the call.
	Line func(pid int, line []byte)
	// Unprotected is told which protection the kernel lacks. nil: nobody is told.
	Unprotected func(error)
	// Ended is called when the child has ended, before Dead is closed. nil: nobody is told.
	Ended func()
}

// Process is a child. It is the leader of a group of its own, which ends with it.
type Process struct {
	PID int

	kernel *os.Process
	dead   chan struct{}
	cause  string // read after dead
	output sync.WaitGroup

	mu     sync.Mutex // guards what follows
	reason string     // why it was killed, empty when it was not
	reaped bool
}

// Start starts a child.
func Start(c Command) (*Process, error) {
	p := &Process{dead: make(chan struct{})}
	started := make(chan error, 1)
	go p.own(c, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// timerSlack is by how many nanoseconds the timers of a child may be late, on all its threads: it has none that
// anybody waits for but those of Go's monitor, which looks every 20 us for threads that keep others waiting for as long
// as it finds one that runs a model. In a child there are no others.
const timerSlack = 5_000_000

// own starts the child and waits for its end, on a thread of its own that ends with it: the child dies with that thread
// should this process be killed, and the confinement that the child inherits from the thread touches no other.
func (p *Process) own(c Command, started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread is not to be used again
	if lacking := confine(c.Access); lacking != nil && c.Unprotected != nil {
		c.Unprotected(lacking)
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) // slower, and right all the same
	output, input, err := os.Pipe()
	if err != nil {
		started <- err
		return
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: c.Args, Env: append([]string{}, c.Access.Environment...), Dir: "/",
		Stdout: input, Stderr: input, ExtraFiles: c.Files,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if c.Dir != "" {
		cmd.Dir = c.Dir
	}
	if c.Input != nil {
		cmd.Stdin = c.Input
	}
	if c.Output != nil {
		cmd.Stdout = c.Output
	}
	err = cmd.Start()
	_ = input.Close()
	if err != nil {
		_ = output.Close()
		started <- err
		return
	}
	p.kernel, p.PID = cmd.Process, cmd.Process.Pid
	p.output.Go(func() { forward(output, func(line []byte) { c.Line(p.PID, line) }) })
	started <- nil
	p.reap()
	_ = cmd.Wait()
	p.mu.Lock()
	p.cause = p.reason
	if state := cmd.ProcessState; p.cause == "" || !killed(state) {
		p.cause = state.String()
	}
	p.mu.Unlock()
	if c.Ended != nil {
		c.Ended()
	}
	close(p.dead)
}

// reap waits until the child has ended and ends what it has started, while no other process can have its number.
func (p *Process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_ = unix.Kill(-p.PID, unix.SIGKILL)
}

// killed tells whether a process ended as Kill makes it end.
func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// MaxLine is how many bytes of a line of a child are read; the rest is dropped.
const MaxLine = 2048

// forward reads the lines of a child.
func forward(output *os.File, tell func([]byte)) {
	defer output.Close()
	reader := bufio.NewReaderSize(output, MaxLine)
	whole := true
	for {
		line, err := reader.ReadSlice('\n')
		if whole && len(bytes.TrimSpace(line)) > 0 {
			tell(bytes.TrimSpace(line))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		whole = err == nil
	}
}

// Dead is closed when the child has ended.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// Cause is how the child has ended, after Dead is closed: why it was killed, or what the system says.
func (p *Process) Cause() string { return p.cause }

// Kill ends the child and its group at once. The first reason given is kept.
func (p *Process) Kill(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = reason
	}
	_ = p.kernel.Kill()
	if !p.reaped {
		_ = unix.Kill(-p.PID, unix.SIGKILL)
	}
}

// Await waits for the end of a child that is about to end, and kills it for a reason when that takes longer than
// farewell.
func (p *Process) Await(farewell time.Duration, reason string) {
	select {
	case <-p.dead:
	case <-time.After(farewell):
		p.Kill(reason)
		<-p.dead
	}
}

// Drain waits until the last lines of a child that has ended were read.
func (p *Process) Drain() { p.output.Wait() }
