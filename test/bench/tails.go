package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// tailFigures sends arrivals that do not wait for answers, at parts of what the box can do, and reports the tails. The
// latency of a request counts from when it was due. The generator is that of "edgewise perf".
func tailFigures(isolation string) measurement {
	return func(dir string, _ int) (result, error) { return tails(dir, isolation) }
}

func tails(dir, isolation string) (r result, err error) {
	b, err := startBox(filepath.Join(dir, "data"), "engine.isolation="+isolation)
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	if err := push(b, "model", onnxgen.MobileNetV2(1).Bytes(), ""); err != nil {
		return r, err
	}
	clients, err := clientsOf(b, "model", noise(picture), kserve.Binary, anywhere)
	if err != nil {
		return r, err
	}
	full, err := clients.loop(16, 2*sampleTime)
	if err != nil {
		return r, err
	}
	table := grid{
		Title: "MobileNetV2, isolation " + isolation +
			", open loop: Poisson arrivals at a part of the throughput with 16 clients; latency in ms",
		Columns: []string{"load", "arrivals/s", "p50", "p90", "p99", "p99.9", "slowest"},
	}
	for _, part := range []float64{0.5, 0.7, 0.85} {
		step, err := openLoop(b, part*full.rate, perf.Options{
			Warmup: time.Second, Window: 4 * time.Second, MaxConnections: 256, Seed: 1,
		})
		if err == nil && step.Failed > 0 {
			err = fmt.Errorf("%d requests of the open loop failed", step.Failed)
		}
		if err != nil {
			return r, err
		}
		row := []string{fmt.Sprintf("%.0f %%", 100*part), fmt.Sprintf("%.0f", part*full.rate)}
		for _, us := range []float64{step.Latency.P50, step.Latency.P90, step.Latency.P99, step.Latency.P999, step.Latency.Max} {
			row = append(row, fmt.Sprintf("%.1f", us/1e3))
		}
		table.Rows = append(table.Rows, row)
		r.Figures = append(r.Figures, known(fmt.Sprintf("MobileNetV2, isolation %s, open loop at %.0f %%: p99", isolation,
			100*part), step.Latency.P99/1e3, "ms",
			fmt.Sprintf("p50 %.1f ms, p99.9 %.1f ms, %.0f arrivals/s", step.Latency.P50/1e3, step.Latency.P999/1e3, part*full.rate)))
	}
	r.Grids = []grid{table}
	return r, nil
}
