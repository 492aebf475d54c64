package main

import (
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// network is a model of some milliseconds.
type network struct {
	name  string // in figures
	model *onnxgen.Model
	in    edgewise.Tensor
	node  bool // it is held against Node.js, too
}

const sampleTime = 700 * time.Millisecond

// picture is the shape of an image for an image network.
var picture = edgewise.Shape{1, 3, 224, 224}

func mobileNetV2() network {
	return network{"MobileNetV2", onnxgen.MobileNetV2(1), noise(picture), true}
}

// ofPixels takes pictures as they come from a camera or a decoder: a byte a colour, 150 kB instead of 602, made into
// numbers inside the network.
func ofPixels() network {
	return network{"MobileNetV2 of UINT8 pixels", onnxgen.MobileNetV2(1).FromPixels(), pixels(), false}
}

// heavier takes the same bytes as MobileNetV2 and runs for 7 ms where that takes 4.
func heavier() network {
	return network{"MobileNetV2 with the width multiplier 1.3", onnxgen.MobileNetV2Wide(1), noise(picture), false}
}

// The order of the sides of a network; Node.js and the lone caller are not always there.
const (
	rawSide = iota
	floorSide
	boxSides
	clusterSide = boxSides + len(isolations)
	singleSide  = clusterSide + 1
	loneSide    = clusterSide + 2
)

// stage starts what runs a network: the raw loop, the least that a server can be, boxes, and perhaps Node.js, as two
// processes with one thread each and as one with two. They share the two cores with the clients.
func (r *run) stage(n network, clients int) []side {
	path := r.save(n.model)
	limit := r.raw(path, n.in, ort.Options{})
	modes := r.startModes(builtProgram, anywhere, n.model, "", n.in)
	least := modes[0].clients.at(r.startFloor(path, n.in).address, "/")
	sides := []side{
		limit.side("raw loop, a caller a core", min(clients, 2), sampleTime),
		least.side("floor: bare sockets, a thread a client, no protocol", clients, sampleTime),
	}
	for _, m := range modes {
		sides = append(sides, m.clients.side("box, isolation "+m.name, clients, sampleTime))
	}
	if !n.node {
		return sides
	}
	cluster := least.at(r.startNode(anywhere, path, n.in, 2, 1).address, "/v2")
	single := least.at(r.startNode(anywhere, path, n.in, 1, 2).address, "/v2")
	sides = append(sides, cluster.side("Node.js, 2 processes x 1 thread", clients, sampleTime),
		single.side("Node.js, 1 process x 2 threads", clients, sampleTime))
	if clients == 1 {
		lone := r.raw(path, n.in, ort.Options{IntraThreads: 2, Spin: true, Rest: true})
		sides = append(sides, lone.side("raw loop, one caller on both cores", 1, sampleTime))
	}
	return sides
}

// networkFigures holds a network, over REST with binary tensors, against the raw loop, the floor and, perhaps, a minimal
// server on Node.js.
func networkFigures(of func() network, clients int) func(*run) {
	return func(r *run) {
		n := of()
		title := fmt.Sprintf("%s, REST with binary tensors, %s", n.name, count(clients))
		if n.node {
			title += " (" + r.nodeVersion() + ")"
		}
		m, sides := r.machine(), r.stage(n, clients)
		all := m.interleave(sides)
		for i, isolation := range isolations {
			r.besideRaw(n.name, isolation, clients, all[boxSides+i], all)
			if n.node {
				r.besideNode(n.name, isolation, clients, all[boxSides+i], all)
			}
		}
		r.latencies(title, "ms", sides, all)
	}
}

// besideRaw holds a box against the raw loop.
func (r *run) besideRaw(name, isolation string, clients int, box series, all []series) {
	raw, floor := all[rawSide], all[floorSide]
	if clients == 1 {
		added := box.added(raw)
		name = fmt.Sprintf("%s, one client, isolation %s: added p50 / raw p50", name, isolation)
		r.report(atMost(name, 100*added/raw.p50(), 1.5, "%",
			fmt.Sprintf("%.0f us over %.2f ms, %d rounds; the floor, which runs on one core, adds %.0f us", 1e6*added,
				1e3*raw.p50(), r.rounds, 1e6*floor.added(raw))))
		return
	}
	name = fmt.Sprintf("%s, %d clients, isolation %s: box / raw loop, 2 callers", name, clients, isolation)
	r.report(atLeast(name, box.over(raw), 0.9, "x",
		fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; the floor reaches %.3f", box.rate(), raw.rate(), r.rounds, floor.over(raw))))
}

// besideNode holds a box against Node.js at its best.
func (r *run) besideNode(name, isolation string, clients int, box series, all []series) {
	cluster, single := all[clusterSide], all[singleSide]
	if clients == 1 {
		best := min(cluster.p50(), single.p50())
		name = fmt.Sprintf("%s, one client, isolation %s: p50 box / Node.js at its best", name, isolation)
		r.report(atMost(name, box.p50()/best, 1, "x",
			fmt.Sprintf("%.2f ms against %.2f ms; the raw loop on both cores takes %.2f ms", 1e3*box.p50(), 1e3*best,
				1e3*all[loneSide].p50())))
		return
	}
	node := cluster
	if single.rate() > node.rate() {
		node = single
	}
	name = fmt.Sprintf("%s, %d clients, isolation %s: ", name, clients, isolation)
	r.report(
		atLeast(name+"box / Node.js at its best", box.over(node), 1.15, "x", fmt.Sprintf("%.0f/s against %.0f/s", box.rate(), node.rate())),
		atMost(name+"p99 box / Node.js", box.p99()/node.p99(), 1, "x", fmt.Sprintf("%.1f ms against %.1f ms", 1e3*box.p99(), 1e3*node.p99())),
	)
}

// serveFigures holds the whole path of a REST request with binary tensors against the raw loop, with models in the
// box's own process and in child processes, as the box is by default.
func serveFigures(r *run) {
	n := mobileNetV2()
	n.node = false
	m, sides := r.machine(), r.stage(n, 2)
	all := m.interleave(sides)
	for i, isolation := range isolations {
		served, raw := all[boxSides+i], all[rawSide]
		r.report(atLeast(fmt.Sprintf("MobileNetV2 over REST, 2 clients, isolation %s / raw loop, 2 callers", isolation),
			served.over(raw), 0.85, "x",
			fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; more in the engine's table", served.rate(), raw.rate(), r.rounds)))
	}
}
