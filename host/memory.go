package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory returns the bytes of the machine's memory, and those that programs can still have. ok is false when the system
// does not tell.
func Memory(root string) (total, available int64, ok bool) {
	path := filepath.Join(root, "proc/meminfo")
	total, known := field(path, "MemTotal")
	available, ok = field(path, "MemAvailable")
	return total, available, known && ok && available <= total
}

// AvailableMemory returns how many bytes this process can still have: on the machine, and in its container where that
// is bounded. 0: unknown.
func AvailableMemory(root string) int64 {
	_, available, _ := Memory(root)
	limit, bounded := number(filepath.Join(root, "sys/fs/cgroup/memory.max"))
	used, known := number(filepath.Join(root, "sys/fs/cgroup/memory.current"))
	if bounded && known {
		available = min(available, max(limit-used, 0))
	}
	return available
}

// Fields of the status of a process, for ProcessBytes.
const (
	Resident = "VmRSS"  // what it has in memory
	Data     = "VmData" // what the kernel counts for RLIMIT_DATA
)

// ProcessBytes returns a field of the status of a process, 0 for this one. ok is false when the process is gone.
func ProcessBytes(root string, pid int, name string) (n int64, ok bool) {
	process := "self"
	if pid != 0 {
		process = strconv.Itoa(pid)
	}
	return field(filepath.Join(root, "proc", process, "status"), name)
}

// field returns the bytes of a line such as "MemTotal: 12 kB".
func field(path, name string) (n int64, ok bool) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, name+":")
		digits, unit := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if kib, err := strconv.ParseInt(digits, 10, 53); found && unit && err == nil && kib >= 0 {
			return kib << 10, true
		}
	}
	return 0, false
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
