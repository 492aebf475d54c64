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
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	crashClients = 16
	crashWindow  = 6 * time.Second
	crashLoad    = 0.3              // of what the box can answer
	fullWindow   = 30 * time.Second // a load that finds no idle core takes 10 s and more
)

// crashFigures compare the tail of a model's latency with and without a second one that crashes in a run and a third
// one that crashes in its load, once each in a window.
func crashFigures(r *run) {
	program := filepath.Join(r.dir, "box") // whose models may be faulty
	r.check(command("go", "build", "-o", program, "./test/isolation/box"))
	library, err := filepath.Abs("bin/lib/libonnxruntime.so.1")
	r.check(err)
	b := r.startServer(anywhere, exec.Command(program, filepath.Join(r.dir, "data"), library))
	r.push(b, faulty.InRun, onnxgen.MLP(1), "")
	t := r.tailBeside(b, func(context.Context) error { return crashBoth(b) })
	r.report(
		atMost("failed requests to another model while two crash", float64(t.failed), 0, "",
			fmt.Sprintf("%d connections, %d crashes in runs and %d in loads", crashClients, r.rounds, r.rounds)),
		atMost("p99 of another model while two crash, change", t.change(), 10, "%", t.detail()),
	)
}

// besides is how MobileNetV2 answered alone, and while something happened beside it, in windows in turn.
type besides struct {
	alone, beside series
	failed        int    // requests
	load          string // what the clients sent
}

// tailBeside measures a box's latency with and without what disturb does for as long as its context, or once. Latency
// counts from when a request was due.
func (r *run) tailBeside(b *box, disturb func(context.Context) error) besides {
	clients, full := r.mobileNet(b, crashClients)
	rate, failed := crashLoad*full, 0
	t := r.windows(disturb, func() (sample, error) {
		step, err := clients.arrivals(rate, crashWindow, 1)
		failed += int(step.Failed)
		return sample{p99: step.Latency.P99 / 1e6}, err
	})
	t.failed, t.load = failed, fmt.Sprintf("%v each, %.0f arrivals/s of MobileNetV2", crashWindow, rate)
	return t
}

// fullTailBeside is tailBeside with clients that wait for their answers and leave no core idle.
func (r *run) fullTailBeside(b *box, disturb func(context.Context) error) besides {
	clients, _ := r.mobileNet(b, crashClients)
	t := r.windows(disturb, func() (sample, error) { return clients.loop(crashClients, fullWindow) })
	t.load = fmt.Sprintf("%v each, %d clients of MobileNetV2", fullWindow, crashClients)
	return t
}

// windows measures in turn without and with what disturb does.
func (r *run) windows(disturb func(context.Context) error, measure func() (sample, error)) besides {
	all := r.machine().interleave([]side{
		{"alone", measure},
		{"beside", func() (sample, error) { return whileDoing(disturb, measure) }},
	})
	return besides{alone: all[0], beside: all[1]}
}

// whileDoing measures while something else happens, which ends with its context or before.
func whileDoing[T any](disturb func(context.Context) error, measure func() (T, error)) (T, error) {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- disturb(ctx) }()
	measured, err := measure()
	end()
	return measured, errors.Join(err, <-done)
}

// change is that of the p99, in percent.
func (t *besides) change() float64 {
	return 100 * (t.beside.beside(t.alone, func(s, o sample) float64 { return s.p99 / o.p99 }) - 1)
}

func (t *besides) detail() string {
	return fmt.Sprintf("%.1f ms without, %.1f ms with; %d windows of %s", 1e3*t.alone.p99(), 1e3*t.beside.p99(), len(t.alone), t.load)
}

// arrivals is openLoop within the connections that the closed loops have.
func (c *callers) arrivals(rate float64, during time.Duration, seed uint64) (perf.Step, error) {
	return c.openLoop(rate, perf.Options{Warmup: warmTime, Window: during / 3, MaxConnections: crashClients, Seed: seed})
}

// crashBoth lets one model crash in a run and another one in its load.
func crashBoth(b *box) error {
	crashed := func(err error) bool { return err != nil && strings.Contains(err.Error(), "segmentation fault") }
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: vector, Data: make([]byte, 256)}
	in.Data[0] = faulty.Poison
	time.Sleep(crashWindow / 4)
	if err := b.infer(faulty.InRun, in, nil); !crashed(err) {
		return fmt.Errorf("the run did not crash: %w", err)
	}
	if err := b.push(faulty.InLoad, "model.onnx", onnxgen.MLP(1).Bytes(), ""); !crashed(err) {
		return fmt.Errorf("the load did not crash: %w", err)
	}
	time.Sleep(crashWindow)
	// Loaded again after the window, so that it is not quarantined.
	ctx := context.Background()
	return errors.Join(b.client.Unload(ctx, faulty.InRun), b.client.Load(ctx, faulty.InRun))
}
