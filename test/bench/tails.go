package main

import (
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// tailFigures sends arrivals that do not wait for answers, at parts of what the box can do, and reports the tails. The
// latency of a request counts from when it was due. The generator is that of "edgewise perf".
func tailFigures(isolation string) func(*run) {
	return func(r *run) {
		b := r.startBox("engine.isolation=" + isolation)
		clients, full := r.mobileNet(b, 16)
		table := grid{
			Title: "MobileNetV2, isolation " + isolation +
				", open loop: Poisson arrivals at a part of the throughput with 16 clients; latency in ms",
			Columns: []string{"load", "arrivals/s", "p50", "p90", "p99", "p99.9", "slowest"},
		}
		for _, part := range []float64{0.5, 0.7, 0.85} {
			step, err := clients.openLoop(part*full, perf.Options{
				Warmup: time.Second, Window: 4 * time.Second, MaxConnections: 256, Seed: 1,
			})
			r.check(err)
			if step.Failed > 0 {
				r.check(fmt.Errorf("%d requests of the open loop failed", step.Failed))
			}
			l, row := step.Latency, []string{fmt.Sprintf("%.0f %%", 100*part), fmt.Sprintf("%.0f", part*full)}
			for _, us := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
				row = append(row, fmt.Sprintf("%.1f", us/1e3))
			}
			table.Rows = append(table.Rows, row)
			r.report(known(fmt.Sprintf("MobileNetV2, isolation %s, open loop at %.0f %%: p99", isolation, 100*part),
				l.P99/1e3, "ms", fmt.Sprintf("p50 %.1f ms, p99.9 %.1f ms, %.0f arrivals/s", l.P50/1e3, l.P999/1e3, part*full)))
		}
		r.Grids = []grid{table}
	}
}

// mobileNet pushes MobileNetV2 into a box and returns its clients and how many requests a second it answers to so many
// of them.
func (r *run) mobileNet(b *box, clients int) (c *callers, full float64) {
	r.push(b, "model", onnxgen.MobileNetV2(1), "")
	c = r.clients(b, "model", noise(picture), kserve.Binary, anywhere)
	s, err := c.loop(clients, 2*sampleTime)
	r.check(err)
	return c, s.rate
}
