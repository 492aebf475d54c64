package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
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

// stage is what runs a network: the raw loop, the least that a server can be, boxes, and perhaps Node.js. They share the
// two cores with the clients.
type stage struct {
	network
	machine *machine
	path    string
	limit   *raw
	lone    *raw // on both cores
	floor   *process
	least   *callers
	modes   []mode
	cluster *callers // Node.js, two processes with one thread each
	single  *callers // Node.js, one process with two threads
	nodes   []*process
}

// networkFigures holds a network, over REST with binary tensors, against the raw loop, the floor and, perhaps, a minimal
// server on Node.js.
func networkFigures(of func() network, clients int) measurement {
	return func(dir string, rounds int) (r result, err error) {
		s := &stage{network: of()}
		defer s.end()
		if err := s.start(dir); err != nil {
			return r, err
		}
		title := fmt.Sprintf("%s, REST with binary tensors, %s", s.name, count(clients))
		if s.node {
			version, err := nodeVersion()
			if err != nil {
				return r, err
			}
			title += " (" + version + ")"
		}
		sides := s.sides(clients)
		all, err := s.machine.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		r.Figures = s.figures(clients, rounds, all)
		r.Grids = []grid{latencies(title, "ms", 1e3, sides, all)}
		return r, nil
	}
}

// start starts everything that is measured.
func (s *stage) start(dir string) (err error) {
	s.path = filepath.Join(dir, "network.onnx")
	if err := os.WriteFile(s.path, s.model.Bytes(), 0o644); err != nil {
		return err
	}
	if s.machine, err = newMachine(dir); err != nil {
		return err
	}
	if s.limit, err = newRaw(s.path, s.in, ort.Options{}); err != nil {
		return err
	}
	if s.modes, err = startModes(builtProgram, dir, anywhere, s.path, "", s.in); err != nil {
		return err
	}
	var address string
	if s.floor, address, err = startFloor(dir, s.path, s.in); err != nil {
		return err
	}
	s.least = s.modes[0].clients.at(address, "/")
	if !s.node {
		return nil
	}
	if s.lone, err = newRaw(s.path, s.in, ort.Options{IntraThreads: 2, Spin: true, Rest: true}); err != nil {
		return err
	}
	for _, n := range []struct {
		clients          **callers
		workers, threads int
	}{{&s.cluster, 2, 1}, {&s.single, 1, 2}} {
		server, address, err := startNode(anywhere, s.path, s.in.Shape, n.workers, n.threads)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, server)
		*n.clients = s.modes[0].clients.at(address, "/v2")
	}
	return nil
}

func (s *stage) end() {
	stopModes(s.modes)
	if s.floor != nil {
		_ = s.floor.cmd.Process.Kill()
	}
	for _, n := range s.nodes {
		_ = n.stop()
	}
}

// The order of a stage's sides; Node.js and the lone caller are not always there.
const (
	rawSide = iota
	floorSide
	boxSides
	clusterSide = boxSides + len(isolations)
	singleSide  = clusterSide + 1
	loneSide    = clusterSide + 2
)

func (s *stage) sides(clients int) []side {
	sides := []side{
		s.limit.side("raw loop, a caller a core", min(clients, 2), sampleTime),
		s.least.side("floor: bare sockets, a thread a client, no protocol", clients, sampleTime),
	}
	for _, m := range s.modes {
		sides = append(sides, m.clients.side("box, isolation "+m.name, clients, sampleTime))
	}
	if !s.node {
		return sides
	}
	sides = append(sides, s.cluster.side("Node.js, 2 processes x 1 thread", clients, sampleTime),
		s.single.side("Node.js, 1 process x 2 threads", clients, sampleTime))
	if clients == 1 {
		sides = append(sides, s.lone.side("raw loop, one caller on both cores", 1, sampleTime))
	}
	return sides
}

func (s *stage) figures(clients, rounds int, all []series) (figures []figure) {
	raw, floor := all[rawSide], all[floorSide]
	for i, m := range s.modes {
		box, name := all[boxSides+i], fmt.Sprintf("%s, %d clients, isolation %s", s.name, clients, m.name)
		if clients == 1 {
			name = fmt.Sprintf("%s, one client, isolation %s", s.name, m.name)
			added := box.added(raw)
			figures = append(figures, atMost(name+": added p50 / raw p50", 100*added/raw.p50(), 1.5, "%",
				fmt.Sprintf("%.0f us over %.2f ms, %d rounds; the floor, which runs on one core, adds %.0f us", 1e6*added,
					1e3*raw.p50(), rounds, 1e6*floor.added(raw))))
		} else {
			figures = append(figures, atLeast(name+": box / raw loop, 2 callers", box.over(raw), 0.9, "x",
				fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; the floor reaches %.3f", box.rate(), raw.rate(), rounds, floor.over(raw))))
		}
		if s.node {
			figures = append(figures, besideNode(name, clients, box, all)...)
		}
	}
	return figures
}

// besideNode holds a box against Node.js at its best.
func besideNode(name string, clients int, box series, all []series) []figure {
	cluster, single := all[clusterSide], all[singleSide]
	if clients == 1 {
		best := min(cluster.p50(), single.p50())
		return []figure{atMost(name+": p50 box / Node.js at its best", box.p50()/best, 1, "x",
			fmt.Sprintf("%.2f ms against %.2f ms; the raw loop on both cores takes %.2f ms", 1e3*box.p50(), 1e3*best,
				1e3*all[loneSide].p50()))}
	}
	node := cluster
	if single.rate() > node.rate() {
		node = single
	}
	return []figure{
		atLeast(name+": box / Node.js at its best", box.over(node), 1.15, "x", fmt.Sprintf("%.0f/s against %.0f/s", box.rate(), node.rate())),
		atMost(name+": p99 box / Node.js", box.p99()/node.p99(), 1, "x", fmt.Sprintf("%.1f ms against %.1f ms", 1e3*box.p99(), 1e3*node.p99())),
	}
}

// serveFigures holds the whole path of a REST request with binary tensors against the raw loop, with models in the
// box's own process and in child processes, as the box is by default.
func serveFigures(dir string, rounds int) (r result, err error) {
	s := &stage{network: mobileNetV2()}
	s.node = false
	defer s.end()
	if err := s.start(dir); err != nil {
		return r, err
	}
	all, err := s.machine.interleave(rounds, s.sides(2))
	if err != nil {
		return r, err
	}
	for i, m := range s.modes {
		served, raw := all[boxSides+i], all[rawSide]
		r.Figures = append(r.Figures, atLeast(fmt.Sprintf("MobileNetV2 over REST, 2 clients, isolation %s / raw loop, 2 callers",
			m.name), served.over(raw), 0.85, "x",
			fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; more in the engine's table", served.rate(), raw.rate(), rounds)))
	}
	return r, nil
}

// mode is a box in one of its isolation modes.
type mode struct {
	name    string
	box     *box
	clients *callers
}

// startModes starts a build of the program in each isolation mode, on a core or anywhere, with a model and its
// configuration.
func startModes(program, dir string, core int, path, config string, in edgewise.Tensor) (modes []mode, err error) {
	load := clientCore
	if core == anywhere {
		load = anywhere
	}
	model, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, name := range isolations {
		b, err := startBuild(program, core, nil, filepath.Join(dir, "data-"+name), "engine.isolation="+name)
		if err != nil {
			return modes, err
		}
		m := mode{name: name, box: b}
		err = push(b, "model", model, config)
		if err == nil {
			m.clients, err = clientsOf(b, "model", in, kserve.Binary, load)
		}
		if modes = append(modes, m); err != nil {
			return modes, err
		}
	}
	return modes, nil
}

func stopModes(modes []mode) {
	for _, m := range modes {
		_ = m.box.stop()
	}
}

// pixels returns a tensor of pixels: smooth, with some noise, as photographs are.
func pixels() edgewise.Tensor {
	const side = 224
	rough := noise(edgewise.Shape{side, side, 3}).Data
	data := make([]byte, side*side*3)
	for i := range data {
		data[i] = byte(i/(3*side)/2 + i/3%side/4 + int(rough[4*i+1]&15))
	}
	return edgewise.Tensor{Name: "pixels", Type: edgewise.Uint8, Shape: edgewise.Shape{1, side, side, 3}, Data: data}
}
