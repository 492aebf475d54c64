package sdk

import (
	"os"
	"testing"

	"github.com/edgewise-ai/edgewise/test/real"
	"github.com/edgewise-ai/edgewise/wasm"
)

// TestMain lets the test program be the compiler that a backend of steps starts.
func TestMain(m *testing.M) { os.Exit(real.MainOfSteps(m, wasm.CompilerVerb, wasm.RunCompiler)) }
