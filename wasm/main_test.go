package wasm

import (
	"os"
	"testing"

	"github.com/edgewise-ai/edgewise/test/real"
)

// TestMain lets the test program be the compiler that a backend starts.
func TestMain(m *testing.M) { os.Exit(real.MainOfSteps(m, CompilerVerb, RunCompiler)) }
