package main

import (
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// A crossing takes a hundredth of what a request to a large model takes, whose time moves by a tenth from second to
// second.
const (
	crossingTime  = 150 * time.Millisecond
	crossingTurns = 12 // a round
)

// What a child may add to the p50 of one client, in us. Both sides sleep while they wait: a model of microseconds pays
// what decision 0074 tells for that, 150 us for 44.
const (
	smallCrossing = 110
	largeCrossing = 40
)

// crossingFigures holds runs in a child process against runs in the server's process: one client, so that a request is
// a batch, and the difference of the medians is what crossing over and back adds.
func crossingFigures(name string, model func(uint64) *onnxgen.Model, shape edgewise.Shape, most float64) func(*run) {
	return func(r *run) {
		m := r.machine()
		var sides []side
		for _, m := range r.startModes(builtProgram, anywhere, model(1), "", noise(shape)) {
			sides = append(sides, m.clients.side(m.name, 1, crossingTime))
		}
		all := m.braid(crossingTurns, sides)
		r.report(atMost("child process, added p50 of a batch: "+name, 1e6*all[1].added(all[0]), most, "us",
			fmt.Sprintf("p50 of a request %.1f us against %.1f us, %d rounds of %d turns", 1e6*all[1].p50(), 1e6*all[0].p50(),
				r.rounds, crossingTurns)))
	}
}
