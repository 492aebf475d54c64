package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// large is the stage of largeFigures: everybody has the same image network, and shares the two cores with the clients.
type large struct {
	machine *machine
	limit   *raw
	lone    *raw // on both cores
	modes   []mode
	cluster *callers // Node.js, two processes with one thread each
	single  *callers // Node.js, one process with two threads
	nodes   []*node
	least   *callers // the least that a server can be
	floor   *process
}

// mode is a box in one of its isolation modes.
type mode struct {
	name    string
	box     *box
	clients *callers
}

// largeFigures holds a model of some milliseconds, over REST with binary tensors, against the raw loop and against a
// minimal server on Node.js.
func largeFigures(clients int) measurement {
	return func(dir string, rounds int) (result, error) {
		stage := &large{}
		defer stage.end()
		if err := stage.set(dir); err != nil {
			return result{}, err
		}
		return stage.measure(clients, rounds)
	}
}

// set starts everything that is measured.
func (l *large) set(dir string) (err error) {
	path := filepath.Join(dir, "mobilenetv2.onnx")
	if err := os.WriteFile(path, onnxgen.MobileNetV2(1).Bytes(), 0o644); err != nil {
		return err
	}
	in := noise(picture)
	if l.machine, err = newMachine(dir); err != nil {
		return err
	}
	if l.limit, err = newRaw(path, in); err != nil {
		return err
	}
	if l.lone, err = newLone(path, in); err != nil {
		return err
	}
	l.modes, err = startModes(dir, anywhere, path, "", in)
	if err != nil {
		return err
	}
	floor, address, err := startFloor(dir, path, in)
	if err != nil {
		return err
	}
	least := *l.modes[0].clients
	least.address = address
	l.floor, l.least = floor, &least
	if err := installNode(); err != nil {
		return err
	}
	for _, n := range []struct {
		clients          **callers
		workers, threads int
	}{{&l.cluster, 2, 1}, {&l.single, 1, 2}} {
		server, err := startNode(anywhere, path, picture, n.workers, n.threads)
		if err != nil {
			return err
		}
		l.nodes = append(l.nodes, server)
		*n.clients = server.clients(l.modes[0].clients, "/v2")
	}
	return nil
}

func (l *large) end() {
	stopModes(l.modes)
	if l.floor != nil {
		_ = l.floor.cmd.Process.Kill()
	}
	for _, n := range l.nodes {
		_ = n.stop()
	}
}

// startModes starts a box in each isolation mode, on a core or anywhere, with a model and its configuration.
func startModes(dir string, core int, path, config string, in edgewise.Tensor) ([]mode, error) {
	return startModesOf(builtProgram, dir, core, path, config, in)
}

// startModesOf is startModes for any build of the program.
func startModesOf(program, dir string, core int, path, config string, in edgewise.Tensor) (modes []mode, err error) {
	load := clientCore
	if core == anywhere {
		load = anywhere
	}
	for _, name := range isolations {
		b, err := startBuild(program, core, nil, filepath.Join(dir, "data-"+name), "engine.isolation="+name)
		if err != nil {
			return modes, err
		}
		modes = append(modes, mode{name: name, box: b})
		if err := pushFile(b, "model", path, config); err != nil {
			return modes, err
		}
		if modes[len(modes)-1].clients, err = clientsOf(b, "model", in, kserve.Binary, load); err != nil {
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

func (l *large) measure(clients, rounds int) (result, error) {
	version, err := nodeVersion()
	if err != nil {
		return result{}, err
	}
	sides := l.sides(clients)
	all, err := l.machine.interleave(rounds, sides)
	if err != nil {
		return result{}, err
	}
	title := fmt.Sprintf("MobileNetV2, REST with binary tensors, %s (%s)", count(clients), version)
	return result{Figures: l.figures(clients, rounds, all), Grids: []grid{latencies(title, "ms", 1e3, sides, all)}}, nil
}

// sides are raw, none, process, Node.js cluster, Node.js single, floor; and for one client the raw loop on both cores.
func (l *large) sides(clients int) []side {
	sides := []side{{"raw loop, a caller a core", func() (sample, error) { return l.limit.loop(min(clients, 2), sampleTime) }}}
	for _, m := range l.modes {
		sides = append(sides, side{"box, isolation " + m.name, func() (sample, error) { return m.clients.loop(clients, sampleTime) }})
	}
	sides = append(sides,
		side{"Node.js, 2 processes x 1 thread", func() (sample, error) { return l.cluster.loop(clients, sampleTime) }},
		side{"Node.js, 1 process x 2 threads", func() (sample, error) { return l.single.loop(clients, sampleTime) }},
		side{"floor: bare sockets, a thread a client, no protocol", func() (sample, error) { return l.least.loop(clients, sampleTime) }},
	)
	if clients == 1 {
		sides = append(sides, side{"raw loop, one caller on both cores", func() (sample, error) { return l.lone.loop(1, sampleTime) }})
	}
	return sides
}

func (l *large) figures(clients, rounds int, all []series) []figure {
	var figures []figure
	raw, node, floor := all[0], all[3], all[5]
	if all[4].rate() > node.rate() {
		node = all[4]
	}
	for i, m := range l.modes {
		box := all[1+i]
		name := fmt.Sprintf("MobileNetV2, %d clients, isolation %s", clients, m.name)
		if clients == 1 {
			added := box.added(raw)
			figures = append(figures,
				atMost(fmt.Sprintf("MobileNetV2, one client, isolation %s: added p50 / raw p50", m.name), 100*added/raw.p50(), 1.5, "%",
					fmt.Sprintf("%.0f us over %.2f ms, %d rounds; the floor, which runs on one core, adds %.0f us; the raw loop on "+
						"both cores takes %.2f ms",
						1e6*added, 1e3*raw.p50(), rounds, 1e6*floor.added(raw), 1e3*all[6].p50())),
				atMost(fmt.Sprintf("MobileNetV2, one client, isolation %s: p50 box / Node.js at its best", m.name),
					box.p50()/min(all[3].p50(), all[4].p50()), 1, "x",
					fmt.Sprintf("%.2f ms against %.2f ms", 1e3*box.p50(), 1e3*min(all[3].p50(), all[4].p50()))),
			)
			continue
		}
		figures = append(figures,
			atLeast(name+": box / raw loop, 2 callers", box.over(raw), 0.9, "x",
				fmt.Sprintf("%.0f/s of %.0f/s, %d rounds; the floor reaches %.3f", box.rate(), raw.rate(), rounds, floor.over(raw))),
			atLeast(name+": box / Node.js at its best", box.over(node), 1.15, "x", fmt.Sprintf("%.0f/s against %.0f/s", box.rate(), node.rate())),
			atMost(name+": p99 box / Node.js", box.p99()/node.p99(), 1, "x", fmt.Sprintf("%.1f ms against %.1f ms", 1e3*box.p99(), 1e3*node.p99())),
		)
	}
	return figures
}
