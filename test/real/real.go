// Package real leads tests to the real things that make has fetched or built: the runtime library, the demo's models,
// and the program.
package real

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Library returns the path of ONNX Runtime's shared library. The test fails when make has not fetched it.
func Library(t testing.TB) string {
	return need(t, "make runtime", "bin", "lib", "libonnxruntime.so.1")
}

// Models returns the folder of the demo's models, in Triton's repository layout.
func Models(t testing.TB) string { return need(t, "make models", "dist", "demo", "models") }

// Pipelines returns the folder of the demo's pipelines, which run the demo's models, in Triton's repository layout.
func Pipelines(t testing.TB) string { return need(t, "make models", "dist", "demo", "pipelines") }

// Samples returns the folder of the demo's sample inputs.
func Samples(t testing.TB) string { return need(t, "git checkout", "configs", "demo", "samples") }

// Program returns the path of the program, which the first call of a test process builds from the sources as they are:
// a stale program is not tested.
func Program(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// program builds bin/edgewise as "make build" does.
var program = sync.OnceValues(func() (path string, err error) {
	return build("edgewise", "build", "-trimpath", "-ldflags", "-s -w", "./cmd/edgewise")
})

// build has Go make a file in bin, and returns its path. Go leaves a program that is up to date as it is; the lock keeps
// the tests of several packages from building at the same time.
func build(name, command string, arguments ...string) (path string, err error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	bin, err := os.Open(filepath.Join(root, "bin"))
	if err != nil {
		return "", fmt.Errorf("%w: run \"make build\" first", err)
	}
	defer func() { err = errors.Join(err, bin.Close()) }() // ends the lock, too
	if err := syscall.Flock(int(bin.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path = filepath.Join(bin.Name(), name)
	cmd := exec.Command("go", append([]string{command, "-o", path}, arguments...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s for tests: %w\n%s", name, err, out)
	}
	return path, nil
}

// Root returns the root of the checkout.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return rootOf(dir)
}

// rootOf returns the folder of go.mod, which is a package's or above it.
func rootOf(dir string) (string, error) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the test's folder")
		}
	}
}

func need(t testing.TB, command string, parts ...string) string {
	path := filepath.Join(append([]string{Root(t)}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: run %q first", filepath.Join(parts...), command)
	}
	return path
}
