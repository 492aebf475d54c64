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
	probe  *raw
	spoilt int     // samples that were discarded
	single bool    // the sides are one thread each: one undisturbed core will do
	best   float64 // the highest rate of one caller so far, by the fastest tenth of its calls
}

func newMachine(dir string) (*machine, error) {
	path := filepath.Join(dir, "probe.onnx")
	if err := os.WriteFile(path, onnxgen.MLP(1).Bytes(), 0o644); err != nil {
		return nil, err
	}
	probe, err := newRaw(path, noise(edgewise.Shape{probeBatch, 64}), ort.Options{})
	return &machine{probe: probe}, err
}

// newSingleMachine is newMachine for sides of one thread.
func newSingleMachine(dir string) (*machine, error) {
	m, err := newMachine(dir)
	if err == nil {
		m.single = true
	}
	return m, err
}

// whole tells whether two callers are nearly twice as fast as one; for sides of one thread, whether one is as fast as
// it can be.
func (m *machine) whole() (bool, error) {
	one, err := m.probe.loop(1, probeTime)
	if err != nil {
		return false, err
	}
	m.best = max(m.best, 1/one.p10)
	if m.single {
		return 1/one.p10 >= undisturbed*m.best, nil
	}
	two, err := m.probe.loop(2, probeTime)
	return two.rate >= realCores*one.rate, err
}

// interleave measures rounds of all sides in turn and returns the samples of each side. A sample counts when the
// machine was whole before and after it; otherwise it is repeated, a limited number of times in all.
func (m *machine) interleave(rounds int, sides []side) ([]series, error) {
	all := make([]series, len(sides))
	patience := 2*rounds*len(sides) + 20
	if m.single {
		patience *= 4 // its samples are short
	}
	before := false
	for round := range rounds {
		for turn := range sides {
			i := (turn + round) % len(sides) // nobody is always the one after the same other
			for {
				if patience--; patience < 0 {
					return nil, errors.New("the machine never had two real cores for long enough: try again")
				}
				s, err := sides[i].run()
				if err != nil {
					return nil, fmt.Errorf("%s: %w", sides[i].name, err)
				}
				runtime.GC()
				after, err := m.whole()
				if err != nil {
					return nil, err
				}
				good := before && after
				if before = after; good {
					all[i] = append(all[i], s)
					break
				}
				m.spoilt++
			}
		}
	}
	return all, nil
}

// braid measures rounds of short samples of all sides, turn by turn, and returns those of each side. What the machine
// does for longer than a turn it does to all of them. A round counts when the machine was whole before and after it.
func (m *machine) braid(rounds, turns int, sides []side) ([]series, error) {
	all := make([]series, len(sides))
	before := false
	for patience := 3*rounds + 10; len(all[0]) < rounds*turns; patience-- {
		if patience < 0 {
			return nil, errors.New("the machine never had two real cores for long enough: try again")
		}
		taken, err := turnByTurn(turns, sides)
		if err != nil {
			return nil, err
		}
		runtime.GC()
		after, err := m.whole()
		if err != nil {
			return nil, err
		}
		good := before && after
		if before = after; !good {
			m.spoilt++
			continue
		}
		for i := range all {
			all[i] = append(all[i], taken[i]...)
		}
	}
	return all, nil
}

// turnByTurn samples each side once a turn, in an order that rotates.
func turnByTurn(turns int, sides []side) ([]series, error) {
	taken := make([]series, len(sides))
	for turn := range turns {
		for n := range sides {
			i := (n + turn) % len(sides)
			s, err := sides[i].run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sides[i].name, err)
			}
			taken[i] = append(taken[i], s)
		}
	}
	return taken, nil
}
