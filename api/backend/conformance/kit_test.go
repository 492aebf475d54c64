package conformance_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/api/backend/conformance"
)

// TestMain is the reference backend in Go when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv(backend.EnvironmentKey) != "" {
		if err := backend.Serve(conformance.Load); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheReferenceInGoKeepsEveryRule(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := conformance.Kit{
		Start: conformance.Command("/", []string{program}, nil, os.Stderr),
		Model: t.TempDir(),
	}
	seen := 0
	k.Run(t.Context(), nil, func(r conformance.Result) {
		seen++
		if r.Err != nil {
			t.Errorf("%s: %s: %v", r.Name, r.Rule, r.Err)
			return
		}
		t.Logf("%s in %v", r.Name, r.Took)
	})
	if seen != len(conformance.Names()) {
		t.Errorf("%d checks ran, want %d", seen, len(conformance.Names()))
	}
}
