package observe

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// machine reads the use of the machine's processors and memory.
type machine struct {
	root string // of the proc file system

	mu          sync.Mutex // guards what follows
	busy, total uint64     // ticks of all processors, when they were read last
	utilization float64    // between the last two readings
}

func newMachine(root string) *machine {
	m := &machine{root: root}
	m.busy, m.total, _ = m.ticks()
	return m
}

// collect sends Triton's gauges of the machine. What cannot be read is left out.
func (m *machine) collect(out chan<- prometheus.Metric) {
	if use, ok := m.use(); ok {
		send(out, prometheus.GaugeValue, "nv_cpu_utilization", "Use of the processors since the page was read last, "+
			"from 0 to 1.", use, nil, nil)
	}
	if total, available, ok := m.memory(); ok {
		send(out, prometheus.GaugeValue, "nv_cpu_memory_total_bytes", "Memory of the machine, in bytes.", float64(total), nil,
			nil)
		send(out, prometheus.GaugeValue, "nv_cpu_memory_used_bytes", "Used memory of the machine, in bytes.",
			float64(total-available), nil, nil)
	}
}

// leastTicks is how many ticks lie between two readings at least, so that the use is not that of an instant.
const leastTicks = 10

func (m *machine) use() (float64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	busy, total, ok := m.ticks()
	if !ok {
		return 0, false
	}
	if total >= m.total+leastTicks && busy >= m.busy {
		m.utilization = float64(busy-m.busy) / float64(total-m.total)
		m.busy, m.total = busy, total
	}
	return m.utilization, true
}

// ticks reads how many ticks all processors were busy, and how many there were.
func (m *machine) ticks() (busy, total uint64, ok bool) {
	f, err := os.Open(m.root + "/stat")
	if err != nil {
		return 0, 0, false
	}
	defer func() { _ = f.Close() }()
	line := bufio.NewScanner(f)
	if !line.Scan() {
		return 0, 0, false
	}
	fields := strings.Fields(line.Text())
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

// memory reads the bytes of the machine's memory, and those that programs could have.
func (m *machine) memory() (total, available uint64, ok bool) {
	f, err := os.Open(m.root + "/meminfo")
	if err != nil {
		return 0, 0, false
	}
	defer func() { _ = f.Close() }()
	found := 0
	for lines := bufio.NewScanner(f); lines.Scan() && found < 2; {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		var to *uint64
		switch name {
		case "MemTotal":
			to = &total
		case "MemAvailable":
			to = &available
		default:
			continue
		}
		kibibytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, 0, false
		}
		*to = kibibytes << 10
		found++
	}
	return total, available, found == 2 && available <= total
}
