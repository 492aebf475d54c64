package machine

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// Machine reads the machine's files. It is safe for concurrent use.
type Machine struct {
	root string // of the process file system

	mu          sync.Mutex // guards the fields below
	total, idle uint64     // ticks at the last look
	load        float64
}

// New returns a machine that is read below root, "/proc" on Linux. Where a file is missing its figures are 0.
func New(root string) *Machine {
	m := &Machine{root: root}
	m.Look()
	return m
}

// Memory returns the memory of the machine, and what this process has resident.
func (m *Machine) Memory() admin.Memory {
	info := m.fields("/meminfo")
	own := m.fields("/self/status")
	return admin.Memory{Total: info["MemTotal"], Available: info["MemAvailable"], Box: own["VmRSS"]}
}

// fields reads a file of lines such as "MemTotal: 12 kB" into bytes.
func (m *Machine) fields(name string) map[string]int64 {
	values := map[string]int64{}
	text, err := os.ReadFile(m.root + name)
	if err != nil {
		return values
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && unit == "kB" {
			values[key] = n << 10
		}
	}
	return values
}

// Look computes the load of the processors since the last look.
func (m *Machine) Look() {
	total, idle := m.ticks()
	m.mu.Lock()
	defer m.mu.Unlock()
	if spent := total - m.total; total > m.total && idle >= m.idle {
		m.load = 1 - float64(idle-m.idle)/float64(spent)
	}
	m.total, m.idle = total, idle
}

// ticks reads how long the processors have been there, and idle.
func (m *Machine) ticks() (total, idle uint64) {
	text, err := os.ReadFile(m.root + "/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil || i > 8 { // what follows is contained in what stands before
			continue
		}
		total += n
		if i == 4 || i == 5 { // idle, and waiting for a disk
			idle += n
		}
	}
	return total, idle
}

// CPU returns the number of cores and their load between the last two looks.
func (m *Machine) CPU() admin.CPU {
	m.mu.Lock()
	defer m.mu.Unlock()
	return admin.CPU{Cores: runtime.NumCPU(), Load: min(max(m.load, 0), 1)}
}

// Model returns the name of the processor, "" when it is not known.
func (m *Machine) Model() string {
	for file, key := range map[string]string{"/cpuinfo": "model name", "/device-tree/model": ""} {
		text, err := os.ReadFile(m.root + file)
		if err != nil {
			continue
		}
		if key == "" {
			return strings.Trim(string(text), "\x00\n ")
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}
