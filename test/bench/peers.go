package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// The peers' table: servers under load generators that are not ours, and ours beside them.

const (
	peerTime        = 2 * time.Second // of a sample; wrk takes whole seconds
	saturating      = 16              // clients
	octetsForm      = "binary"
	jsonForm        = "JSON"
	grpcForm        = "gRPC"
	openConnections = 256 // that our open loop has at most
	childBox        = "box, isolation process"
)

// peerModel is a model that servers are compared with.
type peerModel struct {
	name   string
	model  func() *onnxgen.Model
	in     func() edgewise.Tensor
	config string            // of the box
	answer map[string]string // bytes of the box's answer, by form
	rates  []float64         // arrivals a second that all servers are sent
	goals  []tailGoal        // with them
	calls  float64           // times the floor's rate over gRPC that the box is to reach with 2 to 16 clients; 0: no goal
}

// tailGoal is how many times another server's p99 that of a box with child processes may be.
type tailGoal struct {
	over string
	most float64
}

func peerModels() []peerModel {
	picturesAnswer := map[string]string{octetsForm: "4150", jsonForm: "11500", grpcForm: "4050"}
	return []peerModel{
		{
			"tiny", func() *onnxgen.Model { return onnxgen.MLP(1) }, func() edgewise.Tensor { return noise(vector) }, tinyConfig,
			map[string]string{octetsForm: tinyAnswer, jsonForm: "240", grpcForm: "90"},
			[]float64{1000, 2000, 4000, 8000},
			[]tailGoal{{"no-op", 1.5}, {"box, isolation none", 1.2}},
			0,
		},
		{
			"mobilenet", func() *onnxgen.Model { return onnxgen.MobileNetV2(1) }, func() edgewise.Tensor { return noise(picture) }, "",
			picturesAnswer,
			[]float64{60, 120, 180},
			[]tailGoal{{"floor", 1.15}},
			1.15,
		},
		{
			"pixels", func() *onnxgen.Model { return onnxgen.MobileNetV2(1).FromPixels() }, pixels, "",
			picturesAnswer,
			[]float64{60, 120, 180},
			[]tailGoal{{"floor", 1.15}},
			1.15,
		},
	}
}

// peerScenarios are, for each model and form of the protocol: numbers of clients, parts of each server's own saturation,
// and the same arrivals for all.
func peerScenarios() (all []scenario) {
	for _, p := range peerModels() {
		for _, form := range []string{octetsForm, jsonForm, grpcForm} {
			name := "peers/" + p.name + "/" + form
			for _, n := range []int{1, 2, 4, 16, 64} {
				loads := []peerLoad{{count(n), perf.Load{Concurrency: n}}}
				steps := func(r *run) { r.compare(p, form, func(*callers) []peerLoad { return loads }) }
				all = append(all, scenario{"peers", fmt.Sprintf("%s/%d", name, n), steps})
			}
			var rates []peerLoad
			for _, rate := range p.rates {
				rates = append(rates, peerLoad{fmt.Sprintf("%.0f/s", rate), perf.Load{Rate: rate}})
			}
			all = append(all, scenario{"peers", name + "/parts", func(r *run) {
				r.compare(p, form, func(c *callers) []peerLoad { return r.partsOf(c, form) })
			}}, scenario{"peers", name + "/rates", func(r *run) {
				r.compare(p, form, func(*callers) []peerLoad { return rates })
			}})
		}
	}
	return all
}

// writePeerModels writes the models into a folder in Triton's layout, for a server that is to be compared.
func writePeerModels(dir string) error {
	for _, p := range peerModels() {
		if err := os.MkdirAll(filepath.Join(dir, p.name, "1"), 0o755); err != nil {
			return err
		}
		config := fmt.Sprintf("name: %q\nbackend: \"onnxruntime\"\n%s", p.name, p.config)
		if err := os.WriteFile(filepath.Join(dir, p.name, "config.pbtxt"), []byte(config), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.name, "1", "model.onnx"), p.model().Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// target is a server that has the model.
type target struct {
	name    string
	clients *callers // over gRPC their address and the message
	pid     int      // 0: it runs elsewhere
}

// targets starts everything that speaks a form. The no-op answers with as many bytes as the box, and runs nothing.
func (r *run) targets(p peerModel, form string) (all []target) {
	in, calls := p.in(), form == grpcForm
	c := &callers{}
	if calls {
		c.body = r.message(p.name, in)
	} else {
		c = r.callers(in, map[string]kserve.Form{octetsForm: kserve.Binary, jsonForm: kserve.JSON}[form], anywhere)
	}
	r.check(os.WriteFile(r.bodyFile(), c.body, 0o644))
	add := func(name, path string, s *process) {
		address := s.address
		if calls {
			address = s.grpc
		}
		all = append(all, target{name, c.at(address, path), s.pid()})
	}
	add("no-op", "/", r.startProgram(anywhere, "noop", p.answer[form]))
	model := r.save(p.model())
	if form != jsonForm {
		add("floor", "/", r.startFloor(model, in))
	}
	for _, isolation := range isolations {
		b := r.startBuild(builtProgram, anywhere, nil, filepath.Join(r.dir, "data-"+isolation), "engine.isolation="+isolation)
		r.push(b, p.name, p.model(), p.config)
		add("box, isolation "+isolation, inferPath(p.name), b.process)
	}
	if path := map[string]string{octetsForm: "/v2", jsonForm: "/json"}[form]; path != "" {
		add("Node.js, 2 processes", path, r.startNode(anywhere, model, in, 2, 1))
	}
	if peer := (&process{address: r.peer, grpc: r.peerGRPC}); r.peer != "" && !calls || r.peerGRPC != "" && calls {
		add("peer", inferPath(p.name), peer)
	}
	return all
}

// peerLoad is a load and its name in the table.
type peerLoad struct {
	name string
	perf.Load
}

// partsOf returns loads of a quarter, a half and three quarters of what a server answers to a closed loop of the tool that
// sends them: vegeta takes more of the two cores than wrk.
func (r *run) partsOf(c *callers, form string) (loads []peerLoad) {
	saturate := r.vegeta
	if form == grpcForm {
		saturate = r.ghz
	}
	full, err := saturate(c, perf.Load{Concurrency: saturating}, peerTime)
	r.check(err)
	for _, part := range []float64{0.25, 0.5, 0.75} {
		rate := part * full.rate
		loads = append(loads, peerLoad{fmt.Sprintf("%.0f %%, %.0f/s", 100*part, rate), perf.Load{Rate: rate}})
	}
	return loads
}

// compare measures all servers with all generators, one load after the other.
func (r *run) compare(p peerModel, form string, loads func(*callers) []peerLoad) {
	m, targets := r.machine(), r.targets(p, form)
	var all [][]peerLoad // by target
	for _, t := range targets {
		all = append(all, loads(t.clients))
	}
	g := grid{
		Title: p.name + ", " + form,
		Columns: []string{
			"load", "server", "generator", "requests/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "failed", "processor us a request",
		},
	}
	for i := range all[0] {
		var sides []side
		var rows [][]string
		same := all[0][i].Rate > 0
		for n, t := range targets {
			l := all[n][i]
			same = same && l == all[0][i]
			for _, generator := range generators(form, l.Load) {
				sides = append(sides, t.side(func() (sample, error) { return generator.send(r, t.clients, form, l.Load) }))
				rows = append(rows, []string{l.name, t.name, generator.name})
			}
		}
		measured := m.interleave(sides)
		if same {
			r.tailGoals(p, form, rows, measured)
		}
		if n := all[0][i].Concurrency; form == grpcForm && p.calls > 0 && n > 1 && n <= saturating {
			r.callGoals(p, rows, measured)
		}
		for k, s := range measured {
			row := append(rows[k], fmt.Sprintf("%.0f", s.rate()))
			for _, seconds := range []float64{s.p50(), s.p90(), s.p99(), s.p999()} {
				row = append(row, fmt.Sprintf("%.3g", 1e3*seconds))
			}
			g.Rows = append(g.Rows, append(row, s.failed(), s.work()))
		}
	}
	r.Grids = append(r.Grids, g)
}

// tailGoals holds the box with child processes against others at the same rate, each generator by itself. A row is a
// load, a server and a generator.
func (r *run) tailGoals(p peerModel, form string, rows [][]string, measured []series) {
	for _, goal := range p.goals {
		pairs(goal.over, rows, measured, func(load string, box, over series) {
			r.report(atMost(fmt.Sprintf("%s, %s, %s: p99 %s / %s", p.name, form, load, childBox, goal.over),
				box.beside(over, func(s, o sample) float64 { return s.p99 / o.p99 }), goal.most, "x",
				fmt.Sprintf("%.2f ms against %.2f ms", 1e3*box.p99(), 1e3*over.p99())))
		})
	}
}

// callGoals holds that box against the floor over gRPC.
func (r *run) callGoals(p peerModel, rows [][]string, measured []series) {
	pairs("floor", rows, measured, func(load string, box, floor series) {
		r.report(atLeast(fmt.Sprintf("%s, %s, %s: rate %s / floor", p.name, grpcForm, load, childBox), box.over(floor), p.calls, "x",
			fmt.Sprintf("%.0f/s against %.0f/s", box.rate(), floor.rate())))
	})
}

// pairs are the box with child processes and another server, under each generator.
func pairs(over string, rows [][]string, measured []series, each func(load string, box, over series)) {
	for k, row := range rows {
		for n, other := range rows {
			if row[1] == childBox && other[1] == over && row[2] == other[2] {
				each(row[0]+", "+row[2], measured[k], measured[n])
			}
		}
	}
}

// side is what is done to a target, with the processor time of its server beside it.
func (t *target) side(send func() (sample, error)) side {
	return side{t.name, func() (s sample, err error) {
		if t.pid == 0 {
			return send()
		}
		before, err := processes.ProcessorTime(t.pid)
		if err != nil {
			return s, err
		}
		if s, err = send(); err != nil {
			return s, err
		}
		after, err := processes.ProcessorTime(t.pid)
		s.processor = (after - before).Seconds() / s.requests
		return s, err
	}}
}

// generator sends a load and returns what its answers took.
type generator struct {
	name string
	send func(*run, *callers, string, perf.Load) (sample, error)
}

// generators are those for a load: the public tool, and ours where there is one.
func generators(form string, l perf.Load) []generator {
	tool := map[bool]string{true: "wrk", false: "vegeta"}[l.Concurrency > 0]
	if form == grpcForm {
		tool = "ghz"
	}
	all := []generator{{tool, (*run).public}}
	if form != grpcForm || l.Concurrency > 0 {
		all = append(all, generator{"ours", ours})
	}
	return all
}

func (r *run) public(c *callers, form string, l perf.Load) (sample, error) {
	switch {
	case form == grpcForm:
		return r.ghz(c, l, peerTime)
	case l.Concurrency > 0:
		return r.wrk(c, l.Concurrency, peerTime)
	}
	return r.vegeta(c, l, peerTime)
}

func ours(_ *run, c *callers, form string, l perf.Load) (s sample, err error) {
	switch {
	case form == grpcForm:
		s, err = closedLoop(grpcDialer(c.address, c.body), l.Concurrency, peerTime)
	case l.Concurrency > 0:
		s, err = c.loop(l.Concurrency, peerTime)
	default:
		var step perf.Step
		step, err = c.openLoop(l.Rate, perf.Options{
			Warmup: warmTime, Window: peerTime / 3, MaxConnections: openConnections, Arrivals: perf.Constant,
		})
		if err == nil {
			s, err = ended("ours", step.Latencies, int(step.Failed), peerTime)
		}
	}
	s.requests = s.rate * (peerTime + warmTime).Seconds()
	return s, err
}
