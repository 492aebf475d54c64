package real

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// MainOfSteps is TestMain of a package whose tests have steps compiled. A backend starts the test program again with
// verb, as its compiler: compile. With the race detector compiling takes ten times as long, so there the compiler is
// the program. It returns the exit code.
func MainOfSteps(m *testing.M, verb string, compile func() int) int {
	compiler := len(os.Args) == 2 && os.Args[1] == verb
	var err error
	switch {
	case compiler && raceDetector:
		err = becomeProgram()
	case compiler:
		return compile()
	case raceDetector:
		_, err = program()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// becomeProgram replaces this process, whose parent is a test, by the program. It returns only errors.
func becomeProgram() error {
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", os.Getppid()))
	if err != nil {
		return err
	}
	root, err := rootOf(folder)
	if err != nil {
		return err
	}
	return syscall.Exec(programIn(root), os.Args, os.Environ())
}
