package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const batchingTime = 400 * time.Millisecond

// setting is a way to batch; the first one adapts itself, the others are fixed.
type setting struct{ name, config string }

func settings() []setting {
	all := []setting{
		{"adaptive (the default)", "max_batch_size: 64\ndynamic_batching { }\n"},
		{"off", "max_batch_size: 1\n"}, // above 1 a configuration without inputs is completed with dynamic_batching
	}
	for _, of := range []struct{ size, delay int }{{4, 200}, {8, 200}, {16, 500}, {32, 500}, {64, 1000}} {
		all = append(all, setting{
			fmt.Sprintf("%d within %d us", of.size, of.delay),
			fmt.Sprintf("max_batch_size: %d\ndynamic_batching { preferred_batch_size: [ %d ] max_queue_delay_microseconds: "+
				"%d }\n", of.size, of.size, of.delay),
		})
	}
	return all
}

// batchingFigures holds the batching that adapts itself against fixed settings at every concurrency: the model of some
// microseconds, server on one core, clients on the other.
func batchingFigures(clients int) func(*run) {
	return func(r *run) {
		m := r.machine()
		b := r.startBuild(builtProgram, serverCore, nil, filepath.Join(r.dir, "data"), "engine.isolation=none")
		var sides []side
		for i, of := range settings() {
			name := fmt.Sprintf("mlp%d", i)
			r.push(b, name, onnxgen.MLP(1), of.config)
			c := r.clients(b, name, noise(vector), kserve.Binary, clientCore)
			sides = append(sides, c.side(of.name, clients, batchingTime))
		}
		all := m.interleave(sides)
		best := 1
		for i := 2; i < len(all); i++ {
			if all[i].rate() > all[best].rate() {
				best = i
			}
		}
		r.report(atLeast("adaptive batching / the best fixed setting, "+count(clients), all[0].over(all[best]), 0.95, "x",
			fmt.Sprintf("%.0f/s against %.0f/s with %s", all[0].rate(), all[best].rate(), settings()[best].name)))
		r.latencies("MLP 64-10 by batching, server on one core, isolation none, "+count(clients), "us", sides, all)
	}
}
