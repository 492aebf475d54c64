package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
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

// Cores returns the numbers of the cores that this process may run on, in the order in which runs are best given to
// them: one thread of each core before the second ones, and among them the faster ones first. What the system
// does not tell counts as equal.
func Cores(root string) []int {
	devices := filepath.Join(root, "sys/devices/system/cpu")
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return nil
	}
	var list []core
	for number := range len(allowed) * 64 {
		if allowed.IsSet(number) {
			list = append(list, describe(devices, number))
		}
	}
	return ordered(list)
}

// core is what decides about the place of one.
type core struct {
	number  int
	sibling int // how many threads of the same core have lower numbers
	speed   int // relative to others of the machine; 0: unknown
}

func describe(devices string, number int) core {
	folder := filepath.Join(devices, "cpu"+strconv.Itoa(number))
	c := core{number: number}
	for _, n := range numbers(read(folder, "topology/thread_siblings_list")) {
		if n < number {
			c.sibling++
		}
	}
	for _, file := range []string{"cpu_capacity", "cpufreq/cpuinfo_max_freq"} {
		if n, err := strconv.Atoi(read(folder, file)); err == nil {
			c.speed = n
			break
		}
	}
	return c
}

func ordered(list []core) []int {
	slices.SortFunc(list, func(a, b core) int {
		return cmp.Or(cmp.Compare(a.sibling, b.sibling), cmp.Compare(b.speed, a.speed), cmp.Compare(a.number, b.number))
	})
	order := make([]int, len(list))
	for i, c := range list {
		order[i] = c.number
	}
	return order
}

// numbers reads a list such as "0,4" or "0-1,4".
func numbers(text string) (list []int) {
	for _, part := range strings.Split(text, ",") {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if n, err := strconv.Atoi(to); span && err == nil {
			last = min(n, first+maxSiblings)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}

// maxSiblings bounds the threads of one core.
const maxSiblings = 8

// read returns the first line of a file, without its end; nothing when it cannot be read.
func read(folder, name string) string {
	text, _ := os.ReadFile(filepath.Join(folder, name))
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// LargestCache returns the bytes of the largest cache of the first processor, 0 when the system does not tell.
func LargestCache(root string) (bytes int64) {
	sizes, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu0/cache/index*/size"))
	for _, path := range sizes {
		text, _ := os.ReadFile(path)
		number, unit := strings.TrimSpace(string(text)), int64(1)
		if cut, ok := strings.CutSuffix(number, "K"); ok {
			number, unit = cut, 1<<10
		} else if cut, ok := strings.CutSuffix(number, "M"); ok {
			number, unit = cut, 1<<20
		}
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			bytes = max(bytes, n*unit)
		}
	}
	return bytes
}
