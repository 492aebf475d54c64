package main

import (
	"context"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	loadedModel  = 200 << 20              // bytes of weights
	betweenLoads = 200 * time.Millisecond // that it stays loaded, and away
)

// loadingFigures compare the tail of a model's latency with and without a second one of 200 MB that is loaded and
// unloaded over and over.
func loadingFigures(isolation string) func(*run) {
	return func(r *run) {
		b := r.startBox("engine.isolation=" + isolation)
		r.push(b, "heavy", onnxgen.Weights(loadedModel, 1), "")
		r.check(b.client.Unload(context.Background(), "heavy"))
		loads := 0
		t := r.tailBeside(b, func(ctx context.Context) error {
			n, err := loadOverAndOver(ctx, b)
			loads += n
			return err
		})
		name := ", isolation " + isolation
		r.report(
			atMost("failed requests to another model while 200 MB are loaded and unloaded"+name, t.failed, 0, "",
				fmt.Sprintf("%d connections, %d loads", crashClients, loads)),
			atMost("p99 of another model while 200 MB are loaded and unloaded"+name+", change", t.change(), 10, "%",
				fmt.Sprintf("%s, %d loads", t.detail(), loads)),
		)
	}
}

// loadOverAndOver loads and unloads the heavy model until ctx ends, and tells how often.
func loadOverAndOver(ctx context.Context, b *box) (cycles int, err error) {
	whole := context.WithoutCancel(ctx) // what has begun ends
	for ; ctx.Err() == nil; cycles++ {
		if err := b.client.Load(whole, "heavy"); err != nil {
			return cycles, err
		}
		time.Sleep(betweenLoads)
		if err := b.client.Unload(whole, "heavy"); err != nil {
			return cycles, err
		}
		time.Sleep(betweenLoads)
	}
	return cycles, nil
}
