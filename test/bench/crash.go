package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
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
// one that crashes in its load, once each in a window.
func crashFigures(dir string, rounds int) (r result, err error) {
	b, err := startFaulty(dir)
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	if err := push(b, faulty.InRun, onnxgen.MLP(1).Bytes(), ""); err != nil {
		return r, err
	}
	t, err := tailBeside(b, rounds, func(context.Context) error { return crashBoth(b) })
	if err != nil {
		return r, err
	}
	r.Figures = []figure{
		atMost("failed requests to another model while two crash", t.failed, 0, "",
			fmt.Sprintf("%d connections, %d crashes in runs and %d in loads", crashClients, rounds, rounds)),
		atMost("p99 of another model while two crash, change", t.change(), 10, "%", t.detail()),
	}
	return r, nil
}

// besides is how MobileNetV2 answered alone, and while something happened beside it, in windows in turn.
type besides struct {
	alone, beside []float64 // p99 of each window, in ms
	failed        float64   // requests
	rate          float64   // arrivals a second
}

// tailBeside measures a box's latency with and without what disturb does for as long as its context, or once. Latency
// counts from when a request was due.
func tailBeside(b *box, rounds int, disturb func(context.Context) error) (t besides, err error) {
	if err := push(b, "model", onnxgen.MobileNetV2(1).Bytes(), ""); err != nil {
		return t, err
	}
	clients, err := clientsOf(b, "model", noise(picture), kserve.Binary, anywhere)
	if err != nil {
		return t, err
	}
	full, err := clients.loop(crashClients, 2*sampleTime)
	if err != nil {
		return t, err
	}
	t.rate = crashLoad * full.rate
	for range rounds {
		alone, err := arrivals(b, t.rate, crashWindow, 1)
		if err != nil {
			return t, err
		}
		ctx, end := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- disturb(ctx) }()
		beside, err := arrivals(b, t.rate, crashWindow, 1)
		end()
		if err := errors.Join(err, <-done); err != nil {
			return t, err
		}
		t.alone, t.beside = append(t.alone, alone.Latency.P99/1e3), append(t.beside, beside.Latency.P99/1e3)
		t.failed += float64(alone.Failed) + float64(beside.Failed)
	}
	return t, nil
}

// change is that of the p99, in percent.
func (t *besides) change() float64 { return 100 * (median(t.beside)/median(t.alone) - 1) }

func (t *besides) detail() string {
	return fmt.Sprintf("%.1f ms without, %.1f ms with; %d windows of %v each, %.0f arrivals/s of MobileNetV2",
		median(t.alone), median(t.beside), len(t.alone), crashWindow, t.rate)
}

// arrivals is openLoop within the connections that callers have.
func arrivals(b *box, rate float64, during time.Duration, seed uint64) (perf.Step, error) {
	return openLoop(b, rate, perf.Options{
		Warmup: 100 * time.Millisecond, Window: during / 3, MaxConnections: crashClients, Seed: seed,
	})
}

// openLoop sends requests to the model at times that do not depend on the answers, and that a seed determines, in three
// windows. A latency counts from when the request was due.
func openLoop(b *box, rate float64, o perf.Options) (perf.Step, error) {
	o.Stability, o.MaxWindows, o.Timeout, o.Arrivals, o.Batch = 100, 3, 10*time.Second, perf.Poisson, 1
	request, err := perf.NewRequest("http://"+b.address,
		&edgewise.Request{Model: edgewise.ModelID{Name: "model"}, Inputs: []edgewise.Tensor{noise(picture)}}, kserve.Binary, perf.Access{})
	if err != nil {
		return perf.Step{}, err
	}
	steps, err := perf.Run(context.Background(), request, o, []perf.Load{{Rate: rate}}, nil)
	if err == nil && len(steps) != 1 {
		err = fmt.Errorf("%d steps", len(steps))
	}
	if err != nil {
		return perf.Step{}, err
	}
	return steps[0], nil
}

// crashBoth lets one model crash in a run and another one in its load.
func crashBoth(b *box) error {
	ctx := context.Background()
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: make([]byte, 256)}
	in.Data[0] = faulty.Poison
	time.Sleep(crashWindow / 4)
	_, err := b.client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: faulty.InRun}, Inputs: []edgewise.Tensor{in}})
	if err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		return fmt.Errorf("the run did not crash: %w", err)
	}
	if err := push(b, faulty.InLoad, onnxgen.MLP(1).Bytes(), ""); err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		return fmt.Errorf("the load did not crash: %w", err)
	}
	time.Sleep(crashWindow)
	// Loaded again after the window, so that it is not quarantined.
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
	return startServer(anywhere, exec.Command(program, filepath.Join(dir, "data"), library))
}
