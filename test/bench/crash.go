package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	crashClients = 16
	crashWindow  = 6 * time.Second
	crashLoad    = 0.3 // of what the box can answer
)

// crashFigures compare the tail of a model's latency with and without a second one that crashes in a run and a third
// one that crashes in its load, once each in a window. Latency counts from when a request was due.
func crashFigures(dir string, rounds int) (r result, err error) {
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, onnxgen.MobileNetV2(1).Bytes(), 0o644); err != nil {
		return r, err
	}
	small := filepath.Join(dir, "small.onnx")
	if err := os.WriteFile(small, onnxgen.MLP(1).Bytes(), 0o644); err != nil {
		return r, err
	}
	b, err := startFaulty(dir)
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	if err := errors.Join(pushFile(b, "model", path, ""), pushFile(b, faulty.InRun, small, "")); err != nil {
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
	var quiet, crashing []float64
	failed := uint64(0)
	for range rounds {
		alone, err := window(b, crashLoad*full.rate)
		if err != nil {
			return r, err
		}
		done := make(chan error, 1)
		go func() { done <- crashBoth(b, small) }()
		beside, err := window(b, crashLoad*full.rate)
		if err := errors.Join(err, <-done); err != nil {
			return r, err
		}
		quiet, crashing = append(quiet, alone.Latency.P99/1e3), append(crashing, beside.Latency.P99/1e3)
		failed += uint64(alone.Failed) + uint64(beside.Failed)
	}
	change := 100 * (median(crashing)/median(quiet) - 1)
	detail := fmt.Sprintf("%.1f ms without, %.1f ms with; %d windows of %v each, %.0f arrivals/s of MobileNetV2",
		median(quiet), median(crashing), rounds, crashWindow, crashLoad*full.rate)
	r.Figures = []figure{
		atMost("failed requests to another model while two crash", float64(failed), 0, "",
			fmt.Sprintf("%d connections, %d crashes in runs and %d in loads", crashClients, rounds, rounds)),
		atMost("p99 of another model while two crash, change", change, 10, "%", detail),
	}
	return r, nil
}

// window sends arrivals at a rate to the model that does not crash.
func window(b *box, rate float64) (perf.Step, error) { return arrivals(b, rate, crashWindow, 1) }

// arrivals sends requests to the model at times that do not depend on the answers, and that a seed determines. A
// latency counts from when the request was due.
func arrivals(b *box, rate float64, during time.Duration, seed uint64) (perf.Step, error) {
	request, err := perf.NewRequest("http://"+b.address,
		&edgewise.Request{Model: edgewise.ModelID{Name: "model"}, Inputs: []edgewise.Tensor{noise(picture)}}, kserve.Binary, perf.Access{})
	if err != nil {
		return perf.Step{}, err
	}
	options := perf.Options{
		Warmup: 100 * time.Millisecond, Window: during / 3, Stability: 100, MaxWindows: 3, Timeout: 10 * time.Second,
		MaxConnections: crashClients, Arrivals: perf.Poisson, Seed: seed, Batch: 1,
	}
	steps, err := perf.Run(context.Background(), request, options, []perf.Load{{Rate: rate}}, nil)
	if err == nil && len(steps) != 1 {
		err = fmt.Errorf("%d steps", len(steps))
	}
	if err != nil {
		return perf.Step{}, err
	}
	return steps[0], nil
}

// crashBoth lets one model crash in a run and another one in its load.
func crashBoth(b *box, path string) error {
	ctx := context.Background()
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: make([]byte, 256)}
	in.Data[0] = faulty.Poison
	time.Sleep(crashWindow / 4)
	_, err := b.client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: faulty.InRun}, Inputs: []edgewise.Tensor{in}})
	if err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		return fmt.Errorf("the run did not crash: %w", err)
	}
	if err := pushFile(b, faulty.InLoad, path, ""); err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		return fmt.Errorf("the load did not crash: %w", err)
	}
	time.Sleep(crashWindow)
	// Loaded anew after the window, so that it is not quarantined.
	return errors.Join(b.client.Unload(ctx, faulty.InRun), b.client.Load(ctx, faulty.InRun))
}

// startFaulty builds and starts a box whose models may be faulty.
func startFaulty(dir string) (*box, error) {
	program := filepath.Join(dir, "box")
	if out, err := exec.Command("go", "build", "-o", program, "./test/isolation/box").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	library, err := filepath.Abs("bin/lib/libonnxruntime.so.1")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, filepath.Join(dir, "data"), library)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b := &box{}
	if b.process, err = start(anywhere, cmd); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), " listens on "); ok {
			b.address = strings.TrimPrefix(url, "http://")
		}
		if lines.Text() == "ready" {
			b.client, err = client.New("http://" + b.address)
			return b, err
		}
	}
	return nil, errors.New("the faulty box did not get ready")
}
