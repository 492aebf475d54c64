package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	loadedModel  = 200 << 20              // bytes of weights
	betweenLoads = 200 * time.Millisecond // that it stays loaded, and away
)

// loadingFigures compare the tail of a model's latency with and without a second one of 200 MB that is loaded and
// unloaded over and over.
func loadingFigures(isolation string) measurement {
	return func(dir string, rounds int) (result, error) { return loading(dir, isolation, rounds) }
}

func loading(dir, isolation string, rounds int) (r result, err error) {
	b, err := startBox(filepath.Join(dir, "data"), "engine.isolation="+isolation)
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	if err := errors.Join(push(b, "heavy", onnxgen.Weights(loadedModel, 1).Bytes(), ""),
		b.client.Unload(context.Background(), "heavy")); err != nil {
		return r, err
	}
	cycles := 0
	t, err := tailBeside(b, rounds, func(ctx context.Context) error {
		n, err := loadOverAndOver(ctx, b)
		cycles += n
		return err
	})
	if err != nil {
		return r, err
	}
	name := ", isolation " + isolation
	r.Figures = []figure{
		atMost("failed requests to another model while 200 MB are loaded and unloaded"+name, t.failed, 0, "",
			fmt.Sprintf("%d connections, %d loads", crashClients, cycles)),
		atMost("p99 of another model while 200 MB are loaded and unloaded"+name+", change", t.change(), 10, "%",
			fmt.Sprintf("%s, %d loads", t.detail(), cycles)),
	}
	return r, nil
}

// loadOverAndOver loads and unloads the heavy model until ctx ends, and tells how often.
func loadOverAndOver(ctx context.Context, b *box) (cycles int, err error) {
	whole := context.WithoutCancel(ctx) // what has begun ends
	for ctx.Err() == nil {
		if err := b.client.Load(whole, "heavy"); err != nil {
			return cycles, err
		}
		time.Sleep(betweenLoads)
		if err := b.client.Unload(whole, "heavy"); err != nil {
			return cycles, err
		}
		time.Sleep(betweenLoads)
		cycles++
	}
	return cycles, nil
}
