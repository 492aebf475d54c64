package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRateLimiter serves two models that exclude each other, and refuses one that needs more than there is.
func TestRateLimiter(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, needs := range map[string]int{"cat": 2, "dog": 1, "cow": 3} {
		if err := biased(float32(needs)).Save(filepath.Join(folder, name, "1")); err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf("max_batch_size: 4 instance_group { count: 2 rate_limiter { resources { name: \"camera\" "+
			"count: %d } priority: 2 } }", needs)
		if err := os.WriteFile(filepath.Join(folder, name, "config.pbtxt"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := serve(t, t.TempDir(), "--import", folder, "--rate-limit=execution_count", "--rate-limit-resource=camera:2:0",
		"--rate-limit-resource", "other:1")
	b.awaitReady()
	for range 20 {
		b.wantBias("cat", "1", 2)
		b.wantBias("dog", "1", 1)
	}
	log := strings.ReplaceAll(b.output(), `\`, "")
	contains(t, "the log", log, `Resource count for "camera" is limited to 2 which will prevent scheduling of one or `+
		`more model instances, the minimum required count is 3`)
	b.stop()
}
