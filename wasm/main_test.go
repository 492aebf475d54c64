package wasm

import (
	"os"
	"testing"
)

// TestMain lets the test program be the compiler that a backend starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == CompilerVerb {
		os.Exit(RunCompiler())
	}
	os.Exit(m.Run())
}
