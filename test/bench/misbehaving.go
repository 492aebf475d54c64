package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/backends/faulty"
)

const besideTime = 1500 * time.Millisecond // of a window

// besideFigures compare the tail of a model's latency with and without backends that misbehave, each in its own window, in
// every way that the tests of package external know.
func besideFigures(r *run) {
	faults := faulty.Names()
	for i, fault := range faults {
		r.addGoBackend(faultyName(i), fault, faulty.Keys(fault))
	}
	b := r.startBox("engine.backends="+r.ownBackends(), "log.level=error")
	clients, full := r.mobileNet(b, crashClients)
	rate := crashLoad * full
	var quiet, beside perf.Histogram
	table := grid{
		Title:   "p99 of MobileNetV2 in ms beside a backend that misbehaves, one window of each",
		Columns: []string{"fault", "without", "with"},
	}
	failed := 0
	for i, fault := range faults {
		var shown [2]float64
		for turn := range 2 {
			side, disturb, all := (i+turn)%2, func(context.Context) error { return nil }, &quiet
			if side == 1 {
				disturb, all = func(context.Context) error { return b.misbehave(faultyName(i), faulty.Decoupled(fault)) }, &beside
			}
			step, err := whileDoing(disturb, func() (perf.Step, error) { return clients.arrivals(rate, besideTime, uint64(i)) })
			r.check(err)
			failed += int(step.Failed)
			all.Merge(step.Latencies)
			shown[side] = step.Latency.P99 / 1e3
		}
		_ = b.client.DeleteModel(context.Background(), faultyName(i)) // one that has not loaded may not be there
		table.Rows = append(table.Rows, []string{fault, fmt.Sprintf("%.1f", shown[0]), fmt.Sprintf("%.1f", shown[1])})
	}
	p99 := func(h *perf.Histogram) float64 { return 1e3 * h.Quantile(0.99).Seconds() }
	r.report(
		atMost("failed requests to another model beside backends that misbehave", float64(failed), 0, "",
			fmt.Sprintf("%d faults, %d requests", len(faults), quiet.Count()+beside.Count())),
		atMost("p99 of another model beside backends that misbehave, change", 100*(p99(&beside)/p99(&quiet)-1), 10, "%",
			fmt.Sprintf("%.1f ms without, %.1f ms with; %.0f arrivals/s in %d windows of %v in turn", p99(&quiet), p99(&beside), rate,
				2*len(faults), besideTime)))
	r.Grids = append(r.Grids, table)
}

// faultyName is the backend, and the model, of a fault.
func faultyName(i int) string { return fmt.Sprintf("faulty%d", i) }

// misbehave loads the model of a fault, asks it, and unloads it. The errors are those of the fault.
func (b *box) misbehave(name string, decoupled bool) error {
	config := fmt.Sprintf("backend: %q\ninput { name: \"X\" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n"+
		"output { name: \"Y\" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n"+
		"output { name: \"T\" data_type: TYPE_STRING dims: [ -1, -1 ] }\n", name)
	if decoupled {
		config += "model_transaction_policy { decoupled: true }\n"
	}
	ctx, cancel := context.WithTimeout(context.Background(), besideTime)
	defer cancel()
	if err := b.push(name, "config.pbtxt", []byte(config), ""); err != nil {
		return nil // it is one of those that do not load
	}
	path, body := "/generate", strings.NewReader(`{"X": [[1, 2, 3, 4]]}`)
	if decoupled {
		path = "/generate_stream"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.address+"/v2/models/"+name+path, body)
	if err != nil {
		return err
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	<-ctx.Done() // what it does goes on
	return nil
}
