package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	probeTime   = 100 * time.Millisecond
	realCores   = 1.7  // two callers over one, below which the two cores are one
	probeBatch  = 512  // rows, so that a run is long beside what surrounds it
	undisturbed = 0.85 // of the fastest that one caller ever was, below which somebody else uses its core
)

// side is one of the things that are compared.
type side struct {
	name string
	run  func() (sample, error)
}

// machine tells whether there are two real cores at the moment. Its probe is dense matrix products: scalar code would
// not notice that two threads share one core's vector units.
type machine struct {
	*run
	probe    *raw
	single   bool    // the sides are one thread each: one undisturbed core will do
	best     float64 // the highest rate of one caller so far, by the fastest tenth of its calls
	before   bool    // it was whole at the end of the last sample
	patience int     // samples that may yet be repeated
}

func (r *run) machine() *machine {
	path := filepath.Join(r.dir, "probe.onnx")
	r.check(os.WriteFile(path, onnxgen.MLP(1).Bytes(), 0o644))
	return &machine{run: r, probe: r.raw(path, noise(edgewise.Shape{probeBatch, 64}), ort.Options{})}
}

// whole tells whether two callers are nearly twice as fast as one; for sides of one thread, whether one is as fast as
// it can be.
func (m *machine) whole() bool {
	one, err := closedLoop(m.probe.dial, 1, probeTime)
	m.check(err)
	m.best = max(m.best, 1/one.p10)
	if m.single {
		return 1/one.p10 >= undisturbed*m.best
	}
	two, err := closedLoop(m.probe.dial, 2, probeTime)
	m.check(err)
	return two.rate >= realCores*one.rate
}

// interleave measures rounds of all sides in turn and returns the samples of each side. A sample counts when the
// machine was whole before and after it; otherwise it is repeated, a limited number of times in all.
func (m *machine) interleave(sides []side) []series {
	all := make([]series, len(sides))
	m.before, m.patience = false, m.rounds*len(sides)+20
	if m.single {
		m.patience *= 7 // its samples are short
	}
	for round := range m.rounds {
		for turn := range sides {
			i := (turn + round) % len(sides) // nobody is always the one after the same other
			all[i] = append(all[i], m.steadily(func() []series { return m.turns(1, sides[i:i+1]) })[0]...)
		}
	}
	return all
}

// braid measures rounds of short samples of all sides, turn by turn, and returns those of each side. What the machine
// does for longer than a turn it does to all of them. A round counts when the machine was whole before and after it.
func (m *machine) braid(turns int, sides []side) []series {
	all := make([]series, len(sides))
	m.before, m.patience = false, 2*m.rounds+10
	for range m.rounds {
		for i, taken := range m.steadily(func() []series { return m.turns(turns, sides) }) {
			all[i] = append(all[i], taken...)
		}
	}
	return all
}

// steadily takes samples until the machine was whole before and after them.
func (m *machine) steadily(take func() []series) []series {
	for ; ; m.patience-- {
		if m.patience == 0 {
			m.check(errors.New("the machine never had two real cores for long enough: try again"))
		}
		taken := take()
		runtime.GC()
		before := m.before
		if m.before = m.whole(); before && m.before || m.busy {
			return taken
		}
	}
}

// turns samples each side once a turn, in an order that rotates.
func (m *machine) turns(turns int, sides []side) []series {
	taken := make([]series, len(sides))
	for turn := range turns {
		for n := range sides {
			i := (n + turn) % len(sides)
			s, err := sides[i].run()
			if err != nil {
				m.check(fmt.Errorf("%s: %w", sides[i].name, err))
			}
			taken[i] = append(taken[i], s)
		}
	}
	return taken
}
