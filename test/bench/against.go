package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// What a change does to speed is less than what a shared machine does between two runs. So a build is held against the
// one before it in one run, in turns, by the same requests.

// rivalry is a load that two builds are held against each other with.
type rivalry struct {
	name   string
	model  func() *onnxgen.Model
	config string
	shape  edgewise.Shape
	form   kserve.Form
	server int // the core that boxes are kept on, or anywhere
	load   int // that of the clients
}

func rivalries() []rivalry {
	mlp, mobileNet := func() *onnxgen.Model { return onnxgen.MLP(1) }, func() *onnxgen.Model { return onnxgen.MobileNetV2(1) }
	return []rivalry{
		{"tiny", mlp, tinyConfig, vector, kserve.Binary, serverCore, clientCore},
		{"json", mlp, tinyConfig, vector, kserve.JSON, serverCore, clientCore},
		{"free", mlp, tinyConfig, vector, kserve.Binary, anywhere, anywhere},
		{"large", mobileNet, "", picture, kserve.Binary, anywhere, anywhere},
	}
}

// againstScenarios hold bin/edgewise against another build of it.
func againstScenarios(other string) (all []scenario) {
	for _, r := range rivalries() {
		for _, clients := range []int{1, 2, 4, 16} {
			all = append(all, scenario{"against", fmt.Sprintf("%s/%d", r.name, clients), func(dir string, rounds int) (result, error) {
				return r.measure(dir, other, clients, rounds)
			}})
		}
	}
	return all
}

func (r *rivalry) measure(dir, other string, clients, rounds int) (result, error) {
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, r.model().Bytes(), 0o644); err != nil {
		return result{}, err
	}
	m, err := newMachine(dir)
	if err != nil {
		return result{}, err
	}
	var sides []side
	for _, program := range []string{builtProgram, other} {
		modes, err := startModes(program, filepath.Join(dir, fmt.Sprint(len(sides))), r.server, path, r.config, noise(r.shape))
		defer stopModes(modes)
		if err != nil {
			return result{}, err
		}
		for _, mode := range modes {
			load, err := clientsOf(mode.box, "model", noise(r.shape), r.form, r.load)
			if err != nil {
				return result{}, err
			}
			sides = append(sides, load.side(program+", isolation "+mode.name, clients, tinyTime))
		}
	}
	all, err := m.interleave(rounds, sides)
	if err != nil {
		return result{}, err
	}
	var figures []figure
	for i, isolation := range isolations {
		now, before := all[i], all[len(isolations)+i]
		figures = append(figures, known(fmt.Sprintf("%s, %s, isolation %s: this build / the other", r.name, count(clients),
			isolation), now.over(before), "x",
			fmt.Sprintf("%.0f/s against %.0f/s, p50 %+.1f us, %d rounds", now.rate(), before.rate(), 1e6*now.added(before), rounds)))
	}
	return result{Figures: figures, Grids: []grid{latencies(r.name+", "+count(clients), "us", 1e6, sides, all)}}, nil
}
