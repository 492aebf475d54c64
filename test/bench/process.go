package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// anywhere is no core in particular.
const anywhere = -1

// process is a server that the benchmark started. It ends with the benchmark, however that ends.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// start runs cmd on a core, or anywhere.
func start(core int, cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread() // the kernel counts the thread as the parent; it ends with this goroutine
		err := stayOn(core)
		if err == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	return p, <-started
}

// launch is start for a program that prints lines when it is ready: it returns when told has returned true for one.
func launch(core int, cmd *exec.Cmd, told func(line string) bool) (*process, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := start(core, cmd)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if told(lines.Text()) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s did not start", strings.Join(cmd.Args, " "))
}

// launchAt is launch for a program whose first line is "listening on ADDRESS".
func launchAt(core int, cmd *exec.Cmd) (p *process, address string, err error) {
	cmd.Stderr = os.Stderr
	p, err = launch(core, cmd, func(line string) (listens bool) {
		address, listens = strings.CutPrefix(line, "listening on ")
		return listens
	})
	return p, address, err
}

// startProgram builds and starts one of the programs below test/bench.
func startProgram(dir string, core int, name string, arguments ...string) (*process, string, error) {
	program := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./test/bench/"+name)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, "", err
	}
	return launchAt(core, exec.Command(program, arguments...))
}

// startFloor starts test/bench/floor with a model, anywhere.
func startFloor(dir, model string, in edgewise.Tensor) (*process, string, error) {
	arguments := []string{model, in.Name, in.Type.String(), outputName}
	for _, d := range in.Shape {
		arguments = append(arguments, strconv.FormatInt(d, 10))
	}
	return startProgram(dir, anywhere, "floor", arguments...)
}

// stop ends the process in order and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-p.exited
	return p.err
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
