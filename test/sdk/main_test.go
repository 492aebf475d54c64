package sdk

import (
	"os"
	"testing"

	"github.com/edgewise-ai/edgewise/wasm"
)

// TestMain lets the test program be the compiler that a backend of steps starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == wasm.CompilerVerb {
		os.Exit(wasm.RunCompiler())
	}
	os.Exit(m.Run())
}
