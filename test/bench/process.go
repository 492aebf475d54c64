package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// anywhere is no core in particular.
const anywhere = -1

// process is a server that a run has started. It ends with the run, and with the benchmark, however that ends.
type process struct {
	cmd     *exec.Cmd
	address string // of HTTP
	grpc    string // where it speaks that, too
	exited  chan struct{}
	err     error // of Wait, once exited is closed
}

// start runs cmd on a core, or anywhere, and returns when told has returned true for a line that it prints.
func (r *run) start(core int, cmd *exec.Cmd, told func(line string) bool) *process {
	out, err := cmd.StdoutPipe()
	r.check(err)
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread() // the kernel counts the thread as the parent; it ends with this goroutine
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		err := stayOn(core)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	r.check(<-started)
	r.later(func() { _ = p.stop() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if told(lines.Text()) {
			return p
		}
	}
	_ = p.stop()
	said, _ := cmd.Stderr.(fmt.Stringer)
	r.check(fmt.Errorf("%s did not start: %v", strings.Join(cmd.Args, " "), said))
	return nil
}

// startAt is start for a program whose first line is "listening on ADDRESS", or two addresses.
func (r *run) startAt(core int, cmd *exec.Cmd) *process {
	cmd.Stderr = os.Stderr
	var addresses string
	p := r.start(core, cmd, func(line string) (listens bool) {
		addresses, listens = strings.CutPrefix(line, "listening on ")
		return listens
	})
	p.address, p.grpc, _ = strings.Cut(addresses, " ")
	return p
}

// startProgram builds and starts one of the programs below test/bench.
func (r *run) startProgram(core int, name string, arguments ...string) *process {
	program := filepath.Join(r.dir, name)
	r.check(command("go", "build", "-trimpath", "-o", program, "./test/bench/"+name))
	return r.startAt(core, exec.Command(program, arguments...))
}

// command runs a program to its end; what it prints is in the error.
func command(name string, arguments ...string) error {
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// startFloor starts test/bench/floor with a model, anywhere.
func (r *run) startFloor(model string, in edgewise.Tensor) *process {
	return r.startProgram(anywhere, "floor", model, in.Name+":"+sizes(in.Shape), in.Type.String(), outputName)
}

// sizes writes a shape as 1,3,224,224.
func sizes(shape edgewise.Shape) string { return strings.Trim(shape.String(), "[]") }

// pid is 0 for a server that the run has not started.
func (p *process) pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// stop ends the process in order and waits for it.
func (p *process) stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	<-p.exited
	return errors.Join(err, p.err)
}

// stayOn keeps the calling thread on a core.
func stayOn(core int) error {
	if core == anywhere {
		return nil
	}
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}
