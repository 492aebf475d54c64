// Package real leads tests to the real things that make has fetched: the runtime library and the demo's models.
package real

import (
	"os"
	"path/filepath"
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

// Program returns the path of the built program.
func Program(t testing.TB) string { return need(t, "make build", "bin", "edgewise") }

// Root returns the root of the checkout.
func Root(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's folder")
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
