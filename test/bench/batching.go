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
func batchingFigures(clients int) measurement {
	return func(dir string, rounds int) (result, error) { return batching(dir, clients, rounds) }
}

func batching(dir string, n, rounds int) (r result, err error) {
	m, err := newMachine(dir)
	if err != nil {
		return r, err
	}
	b, err := startBuild(builtProgram, serverCore, nil, filepath.Join(dir, "data"), "engine.isolation=none")
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	var sides []side
	for i, of := range settings() {
		name := fmt.Sprintf("mlp%d", i)
		if err := push(b, name, onnxgen.MLP(1).Bytes(), of.config); err != nil {
			return r, err
		}
		c, err := clientsOf(b, name, noise(vector), kserve.Binary, clientCore)
		if err != nil {
			return r, err
		}
		sides = append(sides, c.side(of.name, n, batchingTime))
	}
	all, err := m.interleave(rounds, sides)
	if err != nil {
		return r, err
	}
	best := 1
	for i := 2; i < len(all); i++ {
		if all[i].rate() > all[best].rate() {
			best = i
		}
	}
	r.Figures = []figure{atLeast("adaptive batching / the best fixed setting, "+count(n), all[0].over(all[best]), 0.95, "x",
		fmt.Sprintf("%.0f/s against %.0f/s with %s", all[0].rate(), all[best].rate(), settings()[best].name))}
	r.Grids = []grid{latencies("MLP 64-10 by batching, server on one core, isolation none, "+count(n), "us", 1e6, sides, all)}
	return r, nil
}
