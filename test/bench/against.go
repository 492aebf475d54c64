package main

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// What a change does to speed is less than what a shared machine does between two runs. So a build is held against the
// one before it in one run, in turns, by the same requests.

// rivalry is a load that two builds are held against each other with.
type rivalry struct {
	name   string
	model  func(uint64) *onnxgen.Model
	config string
	shape  edgewise.Shape
	form   kserve.Form
	server int // the core that boxes are kept on, or anywhere
	load   int // that of the clients
}

func rivalries() []rivalry {
	return []rivalry{
		{"tiny", onnxgen.MLP, tinyConfig, vector, kserve.Binary, serverCore, clientCore},
		{"json", onnxgen.MLP, tinyConfig, vector, kserve.JSON, serverCore, clientCore},
		{"free", onnxgen.MLP, tinyConfig, vector, kserve.Binary, anywhere, anywhere},
		{"large", onnxgen.MobileNetV2, "", picture, kserve.Binary, anywhere, anywhere},
	}
}

// againstScenarios hold bin/edgewise against another build of it.
func againstScenarios(other string) (all []scenario) {
	for _, v := range rivalries() {
		for _, clients := range []int{1, 2, 4, 16} {
			name := fmt.Sprintf("%s/%d", v.name, clients)
			all = append(all, scenario{"against", name, func(r *run) { v.measure(r, other, clients) }})
		}
	}
	return all
}

func (v *rivalry) measure(r *run, other string, clients int) {
	m := r.machine()
	var sides []side
	for _, program := range []string{builtProgram, other} {
		for _, mode := range r.startModes(program, v.server, v.model(1), v.config, noise(v.shape)) {
			load := r.clients(mode.box, "model", noise(v.shape), v.form, v.load)
			sides = append(sides, load.side(program+", isolation "+mode.name, clients, tinyTime))
		}
	}
	all := m.interleave(sides)
	for i, isolation := range isolations {
		now, before := all[i], all[len(isolations)+i]
		r.report(known(fmt.Sprintf("%s, %s, isolation %s: this build / the other", v.name, count(clients), isolation),
			now.over(before), "x", fmt.Sprintf("%.0f/s against %.0f/s, p50 %+.1f us, %d rounds", now.rate(), before.rate(),
				1e6*now.added(before), r.rounds)))
	}
	r.latencies(v.name+", "+count(clients), "us", sides, all)
}
