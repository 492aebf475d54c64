package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	serverCore = 0
	clientCore = 1
	tinyTime   = 600 * time.Millisecond
	tinyAnswer = 150 // bytes of the box's answer: its JSON part and ten floats
)

// tinyConfig is what an author of such a model writes, so that many requests can make one batch.
const tinyConfig = "max_batch_size: 32\ndynamic_batching { }\n"

// vector is the shape of a request to the small network.
var vector = edgewise.Shape{1, 64}

// tinyFigures holds a model of some microseconds against the web framework by itself and against a minimal server on
// Node.js. Every server is kept on one core, the clients on the other.
func tinyFigures(clients int) measurement {
	return func(dir string, rounds int) (result, error) { return tiny(dir, clients, rounds) }
}

func tiny(dir string, clients, rounds int) (r result, err error) {
	m, err := newMachine(dir)
	if err != nil {
		return r, err
	}
	path := filepath.Join(dir, "mlp.onnx")
	if err := os.WriteFile(path, onnxgen.MLP(1).Bytes(), 0o644); err != nil {
		return r, err
	}
	in := noise(vector)
	modes, err := startModes(dir, serverCore, path, tinyConfig, in)
	defer stopModes(modes)
	if err != nil {
		return r, err
	}
	framework, noop, err := startNoop(dir, serverCore, tinyAnswer)
	if err != nil {
		return r, err
	}
	defer func() { _ = framework.stop() }()
	if err := installNode(); err != nil {
		return r, err
	}
	node, err := startNode(serverCore, path, vector, 1, 1)
	if err != nil {
		return r, err
	}
	defer func() { _ = node.stop() }()
	parties, err := tinyParties(noop, modes, node, in)
	if err != nil {
		return r, err
	}
	var sides []side
	for _, p := range parties {
		sides = append(sides, side{p.name, func() (sample, error) { return p.clients.loop(clients, tinyTime) }})
	}
	all, err := m.interleave(rounds, sides)
	if err != nil {
		return r, err
	}
	r.Grids = []grid{latencies("MLP 64-10, servers on one core, the load on the other, "+count(clients), "us", 1e6, sides, all)}
	if clients == 16 {
		r.Figures = tinyGoals(all)
	}
	return r, nil
}

// party is who is measured.
type party struct {
	name    string
	clients *callers
}

// The order of tinyParties.
const (
	tinyNoop = iota
	tinyNone
	tinyProcess
	tinyNode
	tinyNoneJSON
	tinyProcessJSON
	tinyNodeJSON
)

func tinyParties(noop string, modes []mode, node *node, in edgewise.Tensor) ([]party, error) {
	nothing := *modes[0].clients
	nothing.address, nothing.path = noop, "/"
	var texts []*callers
	for _, m := range modes {
		text, err := clientsOf(m.box, "model", in, kserve.JSON, clientCore)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return []party{
		{"web framework, handler that does nothing", &nothing},
		{"box, isolation none, binary", modes[0].clients},
		{"box, isolation process, binary", modes[1].clients},
		{"Node.js, binary", node.clients(modes[0].clients, "/v2")},
		{"box, isolation none, JSON", texts[0]},
		{"box, isolation process, JSON", texts[1]},
		{"Node.js, JSON", node.clients(texts[0], "/json")},
		{"Node.js, bare bytes without a protocol", node.bare(in, clientCore)},
	}, nil
}

func tinyGoals(all []series) []figure {
	ratio := func(name string, a, b int, goal float64) figure {
		return atLeast("MLP 64-10, one core, 16 clients, "+name, all[a].over(all[b]), goal, "x",
			fmt.Sprintf("%.0f/s against %.0f/s, p99 %.0f us against %.0f us", all[a].rate(), all[b].rate(), 1e6*all[a].p99(), 1e6*all[b].p99()))
	}
	return []figure{
		ratio("binary, isolation none: box / web framework's no-op", tinyNone, tinyNoop, 0.75),
		ratio("binary, isolation process: box / web framework's no-op", tinyProcess, tinyNoop, 0.75),
		ratio("binary, isolation none: box / Node.js", tinyNone, tinyNode, 4),
		ratio("binary, isolation process: box / Node.js", tinyProcess, tinyNode, 4),
		ratio("JSON, isolation none: box / Node.js", tinyNoneJSON, tinyNodeJSON, 4),
		ratio("JSON, isolation process: box / Node.js", tinyProcessJSON, tinyNodeJSON, 4),
	}
}
