package main

import (
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	serverCore = 0
	clientCore = 1
	tinyTime   = 600 * time.Millisecond
	tinyAnswer = "150" // bytes of the box's answer: its JSON part and ten floats
)

// tinyConfig is what an author of such a model writes, so that many requests can make one batch.
const tinyConfig = "max_batch_size: 32\ndynamic_batching { }\n"

// vector is the shape of a request to the small network.
var vector = edgewise.Shape{1, 64}

// tinyFigures holds a model of some microseconds against the web framework by itself and against a minimal server on
// Node.js. Every server is kept on one core, the clients on the other.
func tinyFigures(clients int) func(*run) {
	return func(r *run) {
		m, in := r.machine(), noise(vector)
		modes := r.startModes(builtProgram, serverCore, onnxgen.MLP(1), tinyConfig, in)
		noop := r.startProgram(serverCore, "noop", tinyAnswer)
		node := r.startNode(serverCore, r.save(onnxgen.MLP(1)), in, 1, 1)
		sides := r.tinySides(noop.address, modes, node.address, in, clients)
		all := m.interleave(sides)
		r.latencies("MLP 64-10, servers on one core, the load on the other, "+count(clients), "us", sides, all)
		if clients == 16 {
			r.report(tinyGoals(all)...)
		}
	}
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

func (r *run) tinySides(noop string, modes []mode, node string, in edgewise.Tensor, clients int) []side {
	var texts []*callers
	for _, m := range modes {
		texts = append(texts, r.clients(m.box, "model", in, kserve.JSON, clientCore))
	}
	binary := modes[0].clients
	bare := &callers{address: node, path: "/bare", fields: octets, body: in.Data, core: clientCore}
	return []side{
		binary.at(noop, "/").side("web framework, handler that does nothing", clients, tinyTime),
		binary.side("box, isolation none, binary", clients, tinyTime),
		modes[1].clients.side("box, isolation process, binary", clients, tinyTime),
		binary.at(node, "/v2").side("Node.js, binary", clients, tinyTime),
		texts[0].side("box, isolation none, JSON", clients, tinyTime),
		texts[1].side("box, isolation process, JSON", clients, tinyTime),
		texts[0].at(node, "/json").side("Node.js, JSON", clients, tinyTime),
		bare.side("Node.js, bare bytes without a protocol", clients, tinyTime),
	}
}

func tinyGoals(all []series) []figure {
	ratio := func(name string, a, b int, goal float64) figure {
		return atLeast("MLP 64-10, one core, 16 clients, "+name, all[a].over(all[b]), goal, "x",
			fmt.Sprintf("%.0f/s against %.0f/s, p99 %.0f us against %.0f us", all[a].rate(), all[b].rate(), 1e6*all[a].p99(), 1e6*all[b].p99()))
	}
	return []figure{
		ratio("binary, isolation none: box / web framework's no-op", tinyNone, tinyNoop, 0.48),
		ratio("binary, isolation process: box / web framework's no-op", tinyProcess, tinyNoop, 0.40),
		ratio("binary, isolation none: box / Node.js", tinyNone, tinyNode, 4),
		ratio("binary, isolation process: box / Node.js", tinyProcess, tinyNode, 4),
		ratio("JSON, isolation none: box / Node.js", tinyNoneJSON, tinyNodeJSON, 4),
		ratio("JSON, isolation process: box / Node.js", tinyProcessJSON, tinyNodeJSON, 4),
	}
}
