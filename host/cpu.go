package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// minTicks lie between two readings of a Load at least, so that it is not the load of an instant.
const minTicks = 10

// Load measures the load of the processors. It is safe for concurrent use.
type Load struct {
	root string

	mu          sync.Mutex // guards the fields below
	busy, total uint64     // ticks of all processors at the last reading
	load        float64    // between the last two readings
	known       bool
}

// NewLoad begins to measure.
func NewLoad(root string) *Load {
	l := &Load{root: root}
	l.Read()
	return l
}

// Read reads the load since the reading before, 0 to 1. ok is false when the system does not tell.
func (l *Load) Read() (load float64, ok bool) {
	busy, total, ok := ticks(l.root)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok && total >= l.total+minTicks && busy >= l.busy {
		if l.known {
			l.load = float64(busy-l.busy) / float64(total-l.total)
		}
		l.busy, l.total, l.known = busy, total, true
	}
	return l.load, ok
}

// Last returns the load between the last two readings.
func (l *Load) Last() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load
}

// ticks reads how many ticks all processors were busy, and how many there were.
func ticks(root string) (busy, total uint64, ok bool) {
	fields := strings.Fields(read(filepath.Join(root, "proc"), "stat"))
	if len(fields) < 6 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, field := range fields[1:min(len(fields), 9)] { // later fields are parts of earlier ones
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		total += n
		if i != 3 && i != 4 { // idle, waiting for a disk
			busy += n
		}
	}
	return busy, total, true
}

// Processor returns the name of the processor or of the board, "" when it is not known.
func Processor(root string) string {
	text, _ := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return strings.TrimRight(read(filepath.Join(root, "proc/device-tree"), "model"), "\x00 ")
}
