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

// vector is the shape of a request to the small network.
var vector = edgewise.Shape{1, 64}

// tinyFigures holds a model of some microseconds against the web framework by itself and against a minimal server on
// Node.js. Every server is kept on one core, the clients on the other.
func tinyFigures(dir string, rounds int) (r result, err error) {
	m, err := newMachine(dir)
	if err != nil {
		return r, err
	}
	path := filepath.Join(dir, "mlp.onnx")
	if err := os.WriteFile(path, onnxgen.MLP(1).Bytes(), 0o644); err != nil {
		return r, err
	}
	in := noise(vector)
	modes, err := startModes(dir, serverCore, path, in, kserve.Binary)
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
	sides, err := tinySides(noop, modes, node, in)
	if err != nil {
		return r, err
	}
	return measureTiny(m, rounds, sides)
}

// tinySide is a side whose number of clients varies.
type tinySide struct {
	name    string
	clients *callers
}

// The order of tinySides.
const (
	tinyNoop = iota
	tinyNone
	tinyProcess
	tinyNode
	tinyNoneJSON
	tinyProcessJSON
	tinyNodeJSON
)

func tinySides(noop string, modes []mode, node *node, in edgewise.Tensor) ([]tinySide, error) {
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
	return []tinySide{
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

func measureTiny(m *machine, rounds int, sides []tinySide) (r result, err error) {
	table := grid{Title: "MLP 64-10, servers on one core, clients on the other: requests/s, p50 / p99 us", Columns: []string{"side"}}
	for _, s := range sides {
		table.Rows = append(table.Rows, []string{s.name})
	}
	for _, clients := range []int{1, 16, 64} {
		var turns []side
		for _, s := range sides {
			turns = append(turns, side{s.name, func() (sample, error) { return s.clients.loop(clients, tinyTime) }})
		}
		all, err := m.interleave(rounds, turns)
		if err != nil {
			return r, err
		}
		table.Columns = append(table.Columns, fmt.Sprintf("%d clients", clients))
		for i := range sides {
			table.Rows[i] = append(table.Rows[i], fmt.Sprintf("%.0f, %.0f / %.0f", all[i].rate(), 1e6*all[i].p50(), 1e6*all[i].p99()))
		}
		if clients == 16 {
			r.Figures = tinyGoals(all)
		}
	}
	r.Grids = []grid{table}
	return r, nil
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
