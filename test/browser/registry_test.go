//go:build registry

package browser

import (
	"testing"

	"github.com/edgewise-ai/edgewise/test/real"
)

// TestThePageFollowsAPull runs the scenario that needs edgewise-fetch and Debian's docker-registry.
func TestThePageFollowsAPull(t *testing.T) {
	real.Program(t)
	out, err := node(t, "test/run.mjs", "pull.registry").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
