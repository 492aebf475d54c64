package main

import (
	"fmt"

	"github.com/edgewise-ai/edgewise/wasm"
)

// fuelFigures holds a step's time in its guest with the fuel pass against the same module without, and beside both the runtime's
// own way to interrupt. Calls of the box's kernels and of models do not count.
func fuelFigures(name string) measurement {
	return func(dir string, rounds int) (r result, err error) {
		m, err := newSingleMachine(dir)
		if err != nil {
			return r, err
		}
		defer collecting()()
		q, err := questionOf(name)
		if err != nil {
			return r, err
		}
		var sides []side
		for _, way := range []struct {
			name     string
			stopping wasm.Stopping
		}{{"fuel pass", wasm.Fuel}, {"nothing stops it", wasm.Never}, {"the runtime's interruption", wasm.Interruption}} {
			l, err := loadStep(dir, name, way.stopping, q.models)
			if err != nil {
				return r, err
			}
			defer func() { _ = l.Close() }()
			if _, err := answers(l, q, galleryTime, guestTime); err != nil { // warm
				return r, err
			}
			sides = append(sides, side{way.name, func() (sample, error) { return answers(l, q, galleryTime, guestTime) }})
		}
		all, err := m.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		r.Figures = []figure{
			atMost("fuel pass, "+name+": time in the guest / without", all[1].quicker(all[0]), 1.25, "x",
				fmt.Sprintf("%s; %s against %s", q.words, duration(all[0].quick()), duration(all[1].quick()))),
			known("the runtime's interruption, "+name+": time in the guest / without", all[1].quicker(all[2]), "x", duration(all[2].quick())),
		}
		return r, nil
	}
}

// duration writes seconds with a unit that suits them.
func duration(seconds float64) string {
	if seconds < 1e-3 {
		return fmt.Sprintf("%.3g us", 1e6*seconds)
	}
	return fmt.Sprintf("%.3g ms", 1e3*seconds)
}
