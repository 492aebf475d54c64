package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	loadedModel  = 200 << 20              // bytes of weights
	betweenLoads = 200 * time.Millisecond // that it stays loaded, and away
)

// loadingFigures compare the tail of a model's latency with and without a second one of 200 MB that is loaded and
// unloaded over and over: on a box with time to spare, and on one without.
func loadingFigures(isolation string) func(*run) {
	return func(r *run) {
		b := r.startBox("engine.isolation=" + isolation)
		r.push(b, "heavy", onnxgen.Weights(loadedModel, 1), "")
		r.check(b.client.Unload(context.Background(), "heavy"))
		for _, load := range []struct {
			name    string
			measure func(*box, func(context.Context) error) besides
		}{{"three tenths of the load", r.tailBeside}, {"16 clients", r.fullTailBeside}} {
			heavy := &reloading{box: b}
			t := load.measure(b, heavy.overAndOver)
			what, took := ", isolation "+isolation+", "+load.name, median(heavy.took)
			r.report(
				atMost("failed requests to another model while 200 MB are loaded and unloaded"+what, float64(t.failed), 0, "",
					fmt.Sprintf("%d connections, %d loads", crashClients, len(heavy.took))),
				atMost("p99 of another model while 200 MB are loaded and unloaded"+what+", change", t.change(), 25, "%",
					fmt.Sprintf("%s, %d loads", t.detail(), len(heavy.took))),
				known("load of 200 MB"+what, took, "s", fmt.Sprintf("the slowest %.1f s", slices.Max(heavy.took))),
			)
		}
	}
}

// reloading is a model that is loaded and unloaded.
type reloading struct {
	box  *box
	took []float64 // seconds of each load
}

// overAndOver loads and unloads the model until ctx ends, once at least.
func (h *reloading) overAndOver(ctx context.Context) error {
	whole := context.WithoutCancel(ctx) // what has begun ends
	for {
		start := time.Now()
		if err := h.box.client.Load(whole, "heavy"); err != nil {
			return err
		}
		h.took = append(h.took, time.Since(start).Seconds())
		time.Sleep(betweenLoads)
		if err := h.box.client.Unload(whole, "heavy"); err != nil {
			return err
		}
		time.Sleep(betweenLoads)
		if ctx.Err() != nil {
			return nil
		}
	}
}
