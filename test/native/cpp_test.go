package native_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/api/backend/conformance"
)

// build compiles a program of this folder with the compiler's checks of memory, arithmetic and threads.
func build(t *testing.T, source, sanitizers string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "backend")
	cmd := exec.Command("g++", "-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread",
		"-fsanitize="+sanitizers, "-fno-sanitize-recover=all", "-o", program, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return program
}

// What a program writes to standard error, a sanitizer's report above all, is shown when a test fails.
func output(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text, _ := os.ReadFile(f.Name()); t.Failed() {
			t.Logf("standard error:\n%s", text)
		}
		_ = f.Close()
	})
	return f
}

func TestTheHeaderKeepsEachRuleOfTheProtocol(t *testing.T) {
	for _, sanitizers := range []string{"address,undefined", "thread"} {
		t.Run(sanitizers, func(t *testing.T) {
			t.Parallel()
			command := []string{build(t, "../../backends/cpp/conformance.cpp", sanitizers)}
			kit := conformance.Kit{Start: conformance.Command(".", command, nil, output(t)), Model: t.TempDir()}
			kit.Run(context.Background(), nil, func(r conformance.Result) {
				if r.Err != nil {
					t.Errorf("%s (%s): %v", r.Name, r.Rule, r.Err)
				}
			})
		})
	}
}

func TestTheHeaderRefusesDamagedMessages(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(build(t, "testdata/damaged.cpp", "address,undefined"), "20000").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
