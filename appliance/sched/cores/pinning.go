package cores

// pinning are the cores by number, of which a lease on one core has it for itself while it holds it. The kernel looks for an idle
// core when it wakes a thread and rarely while it runs: it left two runs of some milliseconds on one core, and the other idle.
// The mutex of its Budget guards it. The zero value has no pinning, and all runs are where the kernel puts them.
type pinning struct {
	numbers []int // in the order in which they are given out
	taken   []bool
}

// take gives out the number of a core, counted from 1; 0 when there is none.
func (p *pinning) take() int {
	for i, taken := range p.taken {
		if !taken {
			p.taken[i] = true
			return p.numbers[i] + 1
		}
	}
	return 0
}

// give takes back what take gave out.
func (p *pinning) give(core int) {
	for i, number := range p.numbers {
		if number+1 == core {
			p.taken[i] = false
		}
	}
}
