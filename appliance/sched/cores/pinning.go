package cores

// pinning is the cores by number. A lease on one core has one of them for itself while it is held (engine.pin_cores).
// The kernel looks for an idle core when it wakes a thread and rarely while it runs: it left two runs of some
// milliseconds on one core, and the other idle. The mutex of its Budget guards it. With the zero value the kernel
// places all runs.
type pinning struct {
	numbers []int // in the order in which they are given out
	taken   []bool
}

// take returns the number of a free core, counted from 1; 0: none.
func (p *pinning) take() int {
	for i, taken := range p.taken {
		if !taken {
			p.taken[i] = true
			return p.numbers[i] + 1
		}
	}
	return 0
}

// give returns a core.
func (p *pinning) give(core int) {
	for i, number := range p.numbers {
		if number+1 == core {
			p.taken[i] = false
		}
	}
}
