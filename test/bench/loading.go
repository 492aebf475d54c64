package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	loadedModel  = 200 << 20              // bytes of weights
	betweenLoads = 200 * time.Millisecond // that it stays loaded, and away
)

// loadingFigures compare the tail of a model's latency with and without a second one of 200 MB that is loaded and
// unloaded over and over. Latency counts from when a request was due.
func loadingFigures(isolation string) measurement {
	return func(dir string, rounds int) (result, error) { return loading(dir, isolation, rounds) }
}

func loading(dir, isolation string, rounds int) (r result, err error) {
	path, heavy := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "heavy.onnx")
	if err := errors.Join(os.WriteFile(path, onnxgen.MobileNetV2(1).Bytes(), 0o644),
		os.WriteFile(heavy, onnxgen.Weights(loadedModel, 1).Bytes(), 0o644)); err != nil {
		return r, err
	}
	b, err := startBox(filepath.Join(dir, "data"), "engine.isolation="+isolation)
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	if err := errors.Join(pushFile(b, "model", path, ""), pushFile(b, "heavy", heavy, ""),
		b.client.Unload(context.Background(), "heavy")); err != nil {
		return r, err
	}
	clients, err := clientsOf(b, "model", noise(picture), kserve.Binary, anywhere)
	if err != nil {
		return r, err
	}
	full, err := clients.loop(crashClients, 2*sampleTime)
	if err != nil {
		return r, err
	}
	var quiet, beside []float64
	failed, cycles := uint64(0), 0
	for range rounds {
		alone, err := window(b, crashLoad*full.rate)
		if err != nil {
			return r, err
		}
		ctx, end := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			n, err := loadOverAndOver(ctx, b)
			cycles += n
			done <- err
		}()
		with, err := window(b, crashLoad*full.rate)
		end()
		if err := errors.Join(err, <-done); err != nil {
			return r, err
		}
		quiet, beside = append(quiet, alone.Latency.P99/1e3), append(beside, with.Latency.P99/1e3)
		failed += uint64(alone.Failed) + uint64(with.Failed)
	}
	name := ", isolation " + isolation
	r.Figures = []figure{
		atMost("failed requests to another model while 200 MB are loaded and unloaded"+name, float64(failed), 0, "",
			fmt.Sprintf("%d connections, %d loads", crashClients, cycles)),
		atMost("p99 of another model while 200 MB are loaded and unloaded"+name+", change", 100*(median(beside)/median(quiet)-1), 10, "%",
			fmt.Sprintf("%.1f ms without, %.1f ms with; %d windows of %v each, %.0f arrivals/s of MobileNetV2, %d loads",
				median(quiet), median(beside), rounds, crashWindow, crashLoad*full.rate, cycles)),
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
