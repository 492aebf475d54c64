package serving

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryIsLowBeforeTheKernelEndsProcesses has a machine of 64 GiB, and control groups of both versions in it.
func TestMemoryIsLowBeforeTheKernelEndsProcesses(t *testing.T) {
	const gib = int64(1 << 30)
	first, second := "1:memory:/box\n", "0::/box\n"
	for _, c := range []struct {
		name, group        string
		most, taken, files int64 // of the group; 0: there is none
		available          int64 // on the machine
		low                bool
	}{
		{name: "the machine has half a GiB", available: gib / 2},
		{name: "the machine has less", available: gib/2 - 4096, low: true},
		{name: "the group has a twentieth, version 2", group: second, most: 4 * gib, taken: 4*gib - 4*gib/20, available: 32 * gib},
		{name: "the group has less, version 2", group: second, most: 4 * gib, taken: 4*gib - 4*gib/20 + 1, available: 32 * gib, low: true},
		{name: "the group has less, but for files", group: second, most: 4 * gib, taken: 4 * gib, files: gib, available: 32 * gib},
		{name: "the group has a twentieth, version 1", group: first, most: 4 * gib, taken: 4*gib - 4*gib/20, available: 32 * gib},
		{name: "the group has less, version 1", group: first, most: 4 * gib, taken: 4*gib - 4*gib/20 + 1, available: 32 * gib, low: true},
		{name: "the system does not tell", available: -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			put := func(path, text string) {
				t.Helper()
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.available >= 0 {
				put("proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", 64*gib>>10, c.available>>10))
			}
			put("proc/self/cgroup", c.group)
			switch c.group {
			case first:
				put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", fmt.Sprintln(c.most))
				put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", fmt.Sprintln(c.taken))
			case second:
				put("sys/fs/cgroup/box/memory.max", fmt.Sprintln(c.most))
				put("sys/fs/cgroup/box/memory.current", fmt.Sprintln(c.taken))
				put("sys/fs/cgroup/box/memory.stat", fmt.Sprintf("inactive_file %d\n", c.files))
			}
			if got := memoryLow(root); got != c.low {
				t.Errorf("low: %v, want %v", got, c.low)
			}
		})
	}
}
