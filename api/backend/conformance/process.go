package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise/api/backend"
)

// Process is a backend that was started.
type Process interface {
	Kill()
	Done() <-chan struct{} // closed when it has ended
	Exit() string          // how, after that; empty: with exit status 0
}

// Starter starts a backend with its three files, in the order of their descriptors from backend.SocketFD on.
type Starter func(files []*os.File) (Process, error)

// Command starts a program as it is, without a sandbox. Its environment is the one given, with the protocol's variable.
func Command(folder string, argv, environment []string, output *os.File) Starter {
	return func(files []*os.File) (Process, error) {
		if len(argv) == 0 {
			return nil, fmt.Errorf("the command is empty")
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = folder, output, output, files
		cmd.Env = append(environment, fmt.Sprintf("%s=%d", backend.EnvironmentKey, backend.Version))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		c := &child{cmd: cmd, done: make(chan struct{})}
		go func() {
			_ = cmd.Wait()
			close(c.done)
		}()
		return c, nil
	}
}

type child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (c *child) Kill()                 { _ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL) }
func (c *child) Done() <-chan struct{} { return c.done }

func (c *child) Exit() string {
	if c.cmd.ProcessState.Success() {
		return ""
	}
	return c.cmd.ProcessState.String()
}
