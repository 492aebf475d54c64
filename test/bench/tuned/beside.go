package tuned

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/bench/table"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// The traffic beside a tuning.
const (
	steadyRate   = 20 // requests per second: a tuning waits
	steadyWindow = 8 * time.Second
	rarePause    = 3 * time.Second // between requests: a tuning measures, and each request ends that
	rareRequests = 5
)

// measureBeside measures what requests to one model take while another one is tuned, and while none is, in turn.
func measureBeside(ctx context.Context, box *client.Client, o Options) (r table.Result, err error) {
	for _, s := range []stored{
		{"asked", files{"model.onnx": onnxgen.MobileNetV2(1).Bytes()}},
		{"tuned", files{"model.onnx": onnxgen.MobileNetV2(2).Bytes(), configFile: []byte("max_batch_size: 8\n")}},
	} {
		if _, err := box.Push(ctx, upload(s.name, s.files), true, nil); err != nil {
			return r, err
		}
	}
	b := &beside{client: box, request: edgewise.Request{
		Model: edgewise.ModelID{Name: "asked"}, Inputs: []edgewise.Tensor{noise("input", picture)()},
	}}
	without, with, err := b.compare(ctx, o.Rounds, b.steady)
	if err != nil {
		return r, err
	}
	r.Figures = changed(fmt.Sprintf("MobileNetV2, %d requests per second", steadyRate), without, with)
	if without, with, err = b.compare(ctx, o.Rounds, b.rare); err != nil {
		return r, err
	}
	r.Figures = append(r.Figures, table.Figure{
		Name: fmt.Sprintf("MobileNetV2, a request each %v: the slowest one beside a tuning", rarePause), Value: slices.Max(with),
		Unit: "ms", Met: true, Detail: fmt.Sprintf("%.3g ms without; %d requests each, of which the first of each %d can meet a measurement",
			slices.Max(without), len(with), rareRequests),
	})
	return r, nil
}

// beside sends the traffic.
type beside struct {
	client  *client.Client
	request edgewise.Request
}

// compare sends traffic beside a tuning and without one, in turn, and returns the latencies in milliseconds.
func (b *beside) compare(
	ctx context.Context, rounds int, send func(context.Context) ([]float64, error),
) (without, with []float64, err error) {
	var all [2][]float64
	for round := range 2 * rounds {
		turn := (round + round/2) % 2
		took, err := b.while(ctx, turn == 1, send)
		if err != nil {
			return nil, nil, err
		}
		all[turn] = append(all[turn], took...)
	}
	return all[0], all[1], nil
}

// while sends traffic, beside a tuning or without one.
func (b *beside) while(ctx context.Context, tuning bool, send func(context.Context) ([]float64, error)) ([]float64, error) {
	if tuning {
		if _, err := b.client.StartTuning(ctx, "tuned", admin.TuneRequest{Seconds: 300, StoreOnly: true}); err != nil {
			return nil, err
		}
	}
	took, err := send(ctx)
	if tuning {
		if _, stopped := b.client.StopTuning(ctx, "tuned"); err == nil {
			err = stopped
		}
	}
	return took, err
}

// ask sends one request, and returns its latency in milliseconds.
func (b *beside) ask(ctx context.Context) (float64, error) {
	began := time.Now()
	r := b.request
	resp, err := b.client.Infer(ctx, &r)
	if err == nil {
		resp.Release()
	}
	return float64(time.Since(began)) / float64(time.Millisecond), err
}

// steady sends requests at a rate, one after the other: each is answered before the next one is due.
func (b *beside) steady(ctx context.Context) (all []float64, err error) {
	ticker := time.NewTicker(time.Second / steadyRate)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < steadyWindow; <-ticker.C {
		took, err := b.ask(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}

// rare sends few requests with long pauses.
func (b *beside) rare(ctx context.Context) (all []float64, err error) {
	for range rareRequests {
		time.Sleep(rarePause)
		took, err := b.ask(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}

// mostCost is the most that a tuning may add to the p99 latency of traffic, in percent.
const mostCost = 5

// changed are the figures of latencies without a tuning and beside one.
func changed(name string, without, with []float64) []table.Figure {
	slices.Sort(without)
	slices.Sort(with)
	at := func(list []float64, q float64) float64 { return list[min(int(q*float64(len(list))), len(list)-1)] }
	one := func(what string, q float64) table.Figure {
		change := 100 * (at(with, q)/at(without, q) - 1)
		return table.Figure{
			Name: name + ": " + what + " beside a tuning, change", Value: change, Unit: "%", Goal: fmt.Sprintf("<= %d", mostCost),
			Met:    change <= mostCost,
			Detail: fmt.Sprintf("%.3g ms without, %.3g ms with, %d requests each", at(without, q), at(with, q), len(with)),
		}
	}
	return []table.Figure{one("p50", 0.5), one("p99", 0.99)}
}
