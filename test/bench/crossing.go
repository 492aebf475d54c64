package main

import (
	"fmt"
	"os"
	"path/filepath"
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

// crossingFigures holds runs in a child process against runs in the server's process: one client, so that a request is
// a batch, and the difference of the medians is what crossing over and back adds.
func crossingFigures(name string, model *onnxgen.Model, shape edgewise.Shape) measurement {
	return func(dir string, rounds int) (r result, err error) {
		f, err := crossing(dir, rounds, name, model, shape)
		r.Figures = []figure{f}
		return r, err
	}
}

func crossing(folder string, rounds int, name string, model *onnxgen.Model, shape edgewise.Shape) (figure, error) {
	m, err := newMachine(folder)
	if err != nil {
		return figure{}, err
	}
	path := filepath.Join(folder, "model.onnx")
	if err := os.WriteFile(path, model.Bytes(), 0o644); err != nil {
		return figure{}, err
	}
	modes, err := startModes(builtProgram, folder, anywhere, path, "", noise(shape))
	defer stopModes(modes)
	if err != nil {
		return figure{}, err
	}
	var sides []side
	for _, m := range modes {
		sides = append(sides, m.clients.side(m.name, 1, crossingTime))
	}
	all, err := m.braid(rounds, crossingTurns, sides)
	if err != nil {
		return figure{}, err
	}
	return atMost("child process, added p50 of a batch: "+name, 1e6*all[1].added(all[0]), 40, "us",
		fmt.Sprintf("p50 of a request %.1f us against %.1f us, %d rounds of %d turns", 1e6*all[1].p50(), 1e6*all[0].p50(),
			rounds, crossingTurns)), nil
}
