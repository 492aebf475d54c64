package real

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// stepCompiler is the file in bin that compiles steps for tests with the race detector.
const stepCompiler = "step-compiler"

// MainOfSteps is TestMain of a package whose tests have steps compiled. A backend starts the test program again with
// verb, as its compiler: compile. With the race detector compiling takes ten times as long, so there the compiler is
// the tests of package wasm without it: of a test program the machine code has another version than of the program. It
// returns the exit code.
func MainOfSteps(m *testing.M, verb string, compile func() int) int {
	compiler := len(os.Args) == 2 && os.Args[1] == verb
	var err error
	switch {
	case compiler && raceDetector:
		err = becomeCompiler()
	case compiler:
		return compile()
	case raceDetector:
		_, err = build(stepCompiler, "test", "-c", "-trimpath", "./wasm")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// becomeCompiler replaces this process, whose parent is a test, by the compiler. It returns only errors.
func becomeCompiler() error {
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", os.Getppid()))
	if err != nil {
		return err
	}
	root, err := rootOf(folder)
	if err != nil {
		return err
	}
	return syscall.Exec(filepath.Join(root, "bin", stepCompiler), os.Args, os.Environ())
}
