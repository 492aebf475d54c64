package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// LaunchVerb is the program's first argument when it is to lower its rights and to become another program; see Launch.
const LaunchVerb = "launch"

// launch is a program that is to run with limits, which it does not set itself.
type launch struct {
	Arguments   []string   `json:"arguments"` // the first one is the program's path
	Environment []string   `json:"environment"`
	Limits      Limits     `json:"limits"`
	Permission  Permission `json:"permission"`
}

// Program makes c start another program with limits: by way of this one. Its Path and Args are overwritten.
func (c *Command) Program(arguments []string, l Limits, p Permission) (release func(), err error) {
	p.Programs = true
	content, err := json.Marshal(launch{arguments, c.Access.Environment, l, p})
	if err != nil {
		return nil, err
	}
	task, err := Memory(content)
	if err != nil {
		return nil, err
	}
	c.Path, c.Args = Program, []string{"edgewise", LaunchVerb}
	c.Files = append(c.Files, task)
	c.Access.ReadPaths = append(c.Access.ReadPaths, arguments[0])
	return func() { _ = task.Close() }, nil
}

// RunLaunch is the life of this process when it was started with LaunchVerb: it becomes another program. It returns an
// exit code when that fails.
func RunLaunch() int {
	err := becomeProgram()
	fmt.Fprintln(os.Stderr, "edgewise: a program that only edgewise itself starts:", err)
	return 1
}

func becomeProgram() error {
	task, err := lastFile()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(task, 1<<20))
	if err != nil {
		return err
	}
	_ = task.Close()
	var l launch
	if err := json.Unmarshal(content, &l); err != nil {
		return err
	}
	if len(l.Arguments) == 0 {
		return errors.New("there is no program")
	}
	if err := errors.Join(Limit(l.Limits), Refuse(l.Permission)); err != nil {
		return err
	}
	err = unix.Exec(l.Arguments[0], l.Arguments, l.Environment)
	return fmt.Errorf("%s: %w", l.Arguments[0], err)
}

// lastFile returns the file with the highest descriptor that this process was started with.
func lastFile() (*os.File, error) {
	for fd := 3; ; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd+1), unix.F_GETFD, 0); err != nil {
			return os.NewFile(uintptr(fd), "task"), nil
		}
		if fd > maxFiles {
			return nil, errors.New("there is no task")
		}
	}
}

// Memory returns a memory file with content, to be read from its start.
func Memory(content []byte) (*os.File, error) {
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

// Find returns the path of a program, which is looked for in the system's folders unless it has a folder of its own.
func Find(name string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	for _, folder := range []string{"/usr/local/bin/", "/usr/bin/", "/bin/"} {
		if path, err := exec.LookPath(folder + name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %q is not in /usr/local/bin, /usr/bin or /bin", name)
}
