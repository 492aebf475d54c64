package host

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Energy adds up what the packages of the processors use, by the counters of RAPL. It is safe for concurrent use.
type Energy struct {
	zones []zone

	mu     sync.Mutex // guards the fields below
	last   []float64  // microjoules of the zones at the last reading
	joules float64
}

// zone is one package.
type zone struct {
	file string
	wrap float64 // microjoules behind which the counter begins again
}

// NewEnergy finds the counters. The error says why there are none.
func NewEnergy(root string) (*Energy, error) {
	folders, _ := filepath.Glob(filepath.Join(root, "sys/class/powercap/intel-rapl:*"))
	e := &Energy{}
	for _, folder := range folders {
		if !strings.HasPrefix(read(folder, "name"), "package") { // parts of packages, or the board with all of them
			continue
		}
		wrap, err := strconv.ParseFloat(read(folder, "max_energy_range_uj"), 64)
		if err != nil || wrap <= 0 {
			wrap = math.Inf(1)
		}
		e.zones = append(e.zones, zone{filepath.Join(folder, "energy_uj"), wrap})
	}
	if len(e.zones) == 0 {
		return nil, errors.New("the processors tell nothing of their energy: /sys/class/powercap has no package of RAPL")
	}
	e.last = make([]float64, len(e.zones))
	for i, z := range e.zones {
		n, err := z.read()
		if err != nil {
			return nil, fmt.Errorf("the energy of the processors cannot be read: %w", err)
		}
		e.last[i] = n
	}
	return e, nil
}

// Read returns the joules since NewEnergy. It has to be called before a counter begins again twice, which takes minutes.
func (e *Energy) Read() (joules float64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, z := range e.zones {
		n, err := z.read()
		if err != nil {
			return 0, fmt.Errorf("the energy of the processors cannot be read: %w", err)
		}
		used := n - e.last[i]
		if used < 0 { // the counter has begun again
			used += z.wrap
		}
		e.last[i] = n
		if used > 0 && !math.IsInf(used, 0) {
			e.joules += used / 1e6
		}
	}
	return e.joules, nil
}

func (z zone) read() (microjoules float64, err error) {
	text, err := os.ReadFile(z.file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return float64(n), err
}
