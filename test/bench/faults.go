package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/backends/faulty"
	"github.com/edgewise-ai/edgewise/test/processes"
)

const (
	segfaults     = 3               // at the fifth time within ten minutes a process is not started again
	betweenFaults = 3 * time.Second // in which a spare process begins
)

// recoveryFigures end processes of models by SIGSEGV while they and another model are under load.
func recoveryFigures(r *run) {
	r.addGoBackend("identity_go", goIdentity, "")
	r.addCPPBackend("identity_cpp", "test/bench/models/identity.cpp")
	b, in := r.startBox("engine.backends="+r.ownBackends()), noise(edgewise.Shape{smallCall})
	r.push(b, "identity", identity(), identityConfig)
	picture := noise(edgewise.Shape{1, 3, 32, 32})
	picture.Name = "INPUT__0"
	for _, victim := range []struct {
		name string
		in   edgewise.Tensor
		push func(name string)
	}{
		{"Go", in, func(name string) { r.check(b.push(name, "config.pbtxt", []byte(backendConfig("identity_go", "")), "")) }},
		{"C++", in, func(name string) {
			r.check(b.push(name, "config.pbtxt", []byte(backendConfig("identity_cpp", "")), ""))
		}},
		{"Python", in, func(name string) { r.pushPython(b, name, backendConfig("python", ""), "identity.py") }},
		{"TorchScript", picture, func(name string) { r.pushTorch(b, name) }},
	} {
		before, err := processes.Children(b.cmd.Process.Pid)
		r.check(err)
		victim.push("victim")
		var took []float64
		other := outage{box: b, model: "identity", in: in}
		for range segfaults {
			after, err := processes.Children(b.cmd.Process.Pid)
			r.check(err)
			after = slices.DeleteFunc(after, func(pid int) bool { return slices.Contains(before, pid) })
			if len(after) == 0 {
				r.check(errors.New("the model has no process"))
			}
			own := outage{box: b, model: "victim", in: victim.in, kill: slices.Min(after)} // a spare one began later
			_, err = whileDoing(other.watch, func() (float64, error) { return 0, own.watch(context.Background()) })
			r.check(err)
			took = append(took, own.longest.Seconds())
			time.Sleep(betweenFaults)
		}
		r.report(
			atMost(victim.name+": a model is away when its process is ended by SIGSEGV under load", median(took), 1, "s",
				fmt.Sprintf("%.2f s; each time the box waits longer, from 0.1 s on", took)),
			atMost(victim.name+": failed requests to another model meanwhile", float64(other.failed), 0, "",
				fmt.Sprintf("%d requests, the slowest took %.1f ms", other.requests, 1e3*other.longest.Seconds())))
		r.check(b.client.Unload(context.Background(), "victim"))
		r.check(b.client.DeleteModel(context.Background(), "victim"))
	}
}

// outage sends requests to a model one after the other.
type outage struct {
	box   *box
	model string
	in    edgewise.Tensor
	kill  int // the process that is ended after a while; 0: none

	requests, failed int
	longest          time.Duration // between two answers
}

// watch asks until ctx ends; with a process to end, until the model answers after that.
func (o *outage) watch(ctx context.Context) error {
	const before = 200 * time.Millisecond // load comes first
	begin, last, killed := time.Now(), time.Now(), time.Time{}
	for ctx.Err() == nil {
		err := o.box.infer(o.model, o.in, nil)
		now := time.Now()
		switch o.requests++; {
		case err != nil:
			o.failed++
			if now.Sub(last) > 10*stallTime {
				return fmt.Errorf("%s does not answer any more: %w", o.model, err)
			}
			time.Sleep(time.Millisecond)
			continue
		case !killed.IsZero() && o.failed > 0:
			o.longest = now.Sub(killed)
			return nil
		case killed.IsZero():
			o.longest = max(o.longest, now.Sub(last))
		}
		last = now
		if o.kill != 0 && killed.IsZero() && now.Sub(begin) > before {
			killed = now
			if err := syscall.Kill(o.kill, syscall.SIGSEGV); err != nil {
				return err
			}
		}
	}
	return nil
}

// torchConfig is that of the model of pictures of torch_models.py.
const torchConfig = `platform: "pytorch_libtorch"
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 1, 3, 32, 32 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1, 10 ] }
`

// pushTorch puts a small TorchScript model into a box.
func (r *run) pushTorch(b *box, name string) {
	folder := filepath.Join(r.dir, "torch")
	r.check(os.MkdirAll(folder, 0o755))
	r.check(command(pythonProgram, "test/native/testdata/torch_models.py", folder))
	source, err := os.ReadFile(filepath.Join(folder, "vision", "model.pt"))
	r.check(err)
	r.check(b.push(name, "model.pt", source, torchConfig))
}

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
	route := name + "/generate"
	if decoupled {
		route += "_stream"
	}
	if resp, err := b.post(ctx, route, `{"X": [[1, 2, 3, 4]]}`); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	<-ctx.Done() // what it does goes on
	return nil
}
