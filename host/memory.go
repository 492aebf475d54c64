package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise"
)

// Memory returns the bytes of the machine's memory, and those that programs can still have. ok is false when the system
// does not tell.
func Memory(root string) (total, available int64, ok bool) {
	path := filepath.Join(root, "proc/meminfo")
	total, known := field(path, "MemTotal")
	available, ok = field(path, "MemAvailable")
	return total, available, known && ok && available <= total
}

// AvailableMemory returns how many bytes this process can still have: on the machine, and in its container and its
// service where those are bounded. 0: unknown.
func AvailableMemory(root string) int64 {
	_, available, _ := Memory(root)
	for _, b := range memoryBounds(root) {
		available = min(available, max(b.limit-b.used, 0))
	}
	return available
}

// TotalMemory returns how many bytes this process could have if it were alone: the memory of the machine, or of its
// container or its service where those are bounded. 0: unknown.
func TotalMemory(root string) int64 {
	total, _, _ := Memory(root)
	for _, b := range memoryBounds(root) {
		total = min(total, b.limit)
	}
	return total
}

// Fields of the status of a process, for ProcessBytes.
const (
	Resident = "VmRSS"   // what it has in memory
	Private  = "RssAnon" // what of that belongs to no file and to no other process
	Peak     = "VmHWM"   // the most that it has had in memory
	Data     = "VmData"  // what the kernel counts for RLIMIT_DATA
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

// NameLimit names the limit of the system that err is about, such as that of open files, in an error of the kind
// Exhausted. Other errors are returned as they are.
func NameLimit(err error) error {
	const op = "host.NameLimit"
	switch {
	case errors.Is(err, syscall.EMFILE):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the process may open %d files at once (ulimit -n, LimitNOFILE=)", err, OpenFiles())
	case errors.Is(err, syscall.ENFILE):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the limit of the machine is fs.file-max", err)
	case errors.Is(err, syscall.EAGAIN):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the limit of processes is reached (ulimit -u, TasksMax=, pids.max)", err)
	case errors.Is(err, syscall.ENOMEM):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the memory of the machine or of the service is used up (MemoryMax=)", err)
	}
	return err
}

// Scores of processes for the kernel, which ends the one with the highest when memory runs out: what can be done
// without goes first.
const (
	ScoreOfModels = 800  // the process of a model, which is started again
	ScoreOfChecks = 1000 // a process that looks at something once
)

// EndEarly raises the score of a process, 0 for this one. A score that is higher already stays.
func EndEarly(pid, score int) error {
	path := "/proc/self/oom_score_adj"
	if pid > 0 {
		path = fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if present, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || present >= score {
		return err
	}
	return os.WriteFile(path, []byte(strconv.Itoa(score)), 0)
}

// OpenFiles returns how many files the process may open at once.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return ^uint64(0)
	}
	return limit.Cur
}
