package onnx

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

const (
	// smallWeights are the bytes of weights of which a second copy is made without asking.
	smallWeights = 128 << 20
	// spareWeights is how many copies of larger ones there must be room for, so that runs and others have memory, too.
	spareWeights = 4
)

// roomFor returns nil where a second copy of a model's weights may be made, of so many bytes. root is where /proc and /sys are.
// Errors: Exhausted.
func roomFor(weights int64, root string) error {
	if weights <= smallWeights {
		return nil
	}
	if available := availableMemory(root); available < spareWeights*weights {
		return edgewise.Errorf("onnx.roomFor", edgewise.Exhausted, "%d bytes of memory are available, want %d times the weights of %d bytes", available, spareWeights, weights)
	}
	return nil
}

// availableMemory returns how many bytes processes may still take: on this machine, and in this container if it is bounded. 0: unknown.
func availableMemory(root string) int64 {
	available := int64(0)
	info, _ := os.ReadFile(filepath.Join(root, "proc/meminfo")) // unreadable: none
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 53)
			available = kilobytes << 10
		}
	}
	limit, bounded := number(filepath.Join(root, "sys/fs/cgroup/memory.max"))
	used, known := number(filepath.Join(root, "sys/fs/cgroup/memory.current"))
	if bounded && known {
		available = min(available, max(limit-used, 0))
	}
	return available
}

// number reads a file that holds one; ok is false when it does not.
func number(path string) (n int64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
