package host_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/host"
)

func TestTheTimeOfAProcessIsThatOfItsFamily(t *testing.T) {
	root := t.TempDir()
	for pid, stat := range map[string]string{
		"10": "10 (edgewise) S 1 10 10 0 -1 4194560 1 0 0 0 100 20 0 0 20 0 9",
		"11": "11 (a (b) 7) S 10 10 10 0 -1 4194560 1 0 0 0 30 0 0 0 20 0 9",
		"12": "12 (grandchild) S 11 10 10 0 -1 4194560 1 0 0 0 0 5 0 0 20 0 9",
		"20": "20 (other) S 1 10 10 0 -1 4194560 1 0 0 0 900 900 0 0 20 0 9",
	} {
		if err := os.MkdirAll(filepath.Join(root, "proc", pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc", pid, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := host.ProcessTime(root, 10); got != 1550*time.Millisecond {
		t.Errorf("%v, want 1.55s", got)
	}
}
