package main

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/haproxy"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

const (
	scaleTime    = time.Second
	scaleClients = 16
	scaleBoxes   = 3
	largeHop     = 150_528 // elements: 602 kB
)

// scaleScenarios are those of the table scale: boxes behind the proxy of configs/proxy.
func scaleScenarios() []scenario {
	return []scenario{
		{"scale", "hop/REST/small", proxyFigures("REST", smallTensor)},
		{"scale", "hop/REST/large", proxyFigures("REST", largeHop)},
		{"scale", "hop/gRPC/small", proxyFigures("gRPC", smallTensor)},
		{"scale", "hop/gRPC/large", proxyFigures("gRPC", largeHop)},
		{"scale", "replicas/waiting", replicaFigures("a model that waits 20 ms for something else", noise(edgewise.Shape{64}),
			func(r *run, b *box) { r.pushPython(b, "model", backendConfig("python", ""), "waiting.py") })},
		{"scale", "replicas/computing", replicaFigures("MobileNetV2", noise(picture),
			func(r *run, b *box) { r.push(b, "model", onnxgen.MobileNetV2(1), "") })},
	}
}

// startProxy starts HAProxy in front of boxes and waits until it has found them ready.
func (r *run) startProxy(boxes ...*box) *haproxy.Proxy {
	var at []haproxy.Box
	for _, b := range boxes {
		at = append(at, haproxy.Box{REST: b.address, GRPC: b.grpc})
	}
	p, err := haproxy.Start(".", r.dir, at...)
	r.check(err)
	r.later(p.Stop)
	for i := range boxes {
		for up := false; !up; time.Sleep(10 * time.Millisecond) {
			up, err = p.Sees(i, "UP")
			r.check(err)
		}
	}
	return p
}

// counting counts what a dialer's clients have sent.
func counting(dial dialer, sent *atomic.Int64) dialer {
	return func() (func() error, func(), error) {
		exchange, hangUp, err := dial()
		return func() error {
			sent.Add(1)
			return exchange()
		}, hangUp, err
	}
}

// processorSide is a closed loop with the processor time of a process for each request.
func processorSide(name string, dial dialer, clients, pid int) side {
	return side{name, func() (s sample, err error) {
		before, err := processes.ProcessorTime(pid)
		if err != nil {
			return s, err
		}
		var sent atomic.Int64
		if s, err = closedLoop(counting(dial, &sent), clients, scaleTime); err != nil {
			return s, err
		}
		after, err := processes.ProcessorTime(pid)
		s.processor = (after - before).Seconds() / float64(sent.Load())
		return s, err
	}}
}

// proxyFigures hold a box behind the proxy against the same box without: an identity, so that next to nothing is computed.
func proxyFigures(protocol string, elements int64) func(*run) {
	return func(r *run) {
		m, in := r.machine(), noise(edgewise.Shape{elements})
		b := r.startBox()
		r.push(b, "model", identity(), identityConfig)
		p := r.startProxy(b)
		var direct, proxied dialer
		if protocol == "gRPC" {
			message := r.message("model", in)
			direct, proxied = grpcDialer(b.grpc, message), grpcDialer(p.GRPC, message)
		} else {
			callers := r.clients(b, "model", in, kserve.Binary, anywhere)
			direct, proxied = callers.dial, callers.at(p.REST, callers.path).dial
		}
		for _, clients := range []int{1, scaleClients} {
			sides := []side{
				processorSide("a box", direct, clients, b.cmd.Process.Pid),
				processorSide("the same behind HAProxy", proxied, clients, p.Process.Pid),
			}
			all := m.interleave(sides)
			title := fmt.Sprintf("%s, %d bytes each way, %s", protocol, 4*elements, count(clients))
			r.report(
				known(title+": p50 added by the proxy", 1e6*all[1].added(all[0]), "us",
					fmt.Sprintf("%.0f us against %.0f us", 1e6*all[1].p50(), 1e6*all[0].p50())),
				known(title+": p99 behind the proxy / without", all[1].beside(all[0], func(s, o sample) float64 { return s.p99 / o.p99 }), "x",
					fmt.Sprintf("%.0f us against %.0f us", 1e6*all[1].p99(), 1e6*all[0].p99())),
				known(title+": processor time of the proxy a request", 1e6*all[1].median(func(s sample) float64 { return s.processor }), "us",
					fmt.Sprintf("of the box, without its children %s us", all[0].work())),
				known(title+": rate behind the proxy / without", all[1].over(all[0]), "x",
					fmt.Sprintf("%.0f/s against %.0f/s; box, proxy and clients share the cores", all[1].rate(), all[0].rate())),
			)
			r.latencies(title, "us", sides, all)
		}
	}
}

// replicaFigures hold one to three boxes behind the proxy against one without.
func replicaFigures(words string, in edgewise.Tensor, put func(*run, *box)) func(*run) {
	return func(r *run) {
		m := r.machine()
		var boxes []*box
		for i := range scaleBoxes {
			b := r.startBuild(builtProgram, anywhere, nil, filepath.Join(r.dir, fmt.Sprintf("data%d", i)))
			put(r, b)
			boxes = append(boxes, b)
		}
		callers := r.clients(boxes[0], "model", in, kserve.Binary, anywhere)
		sides := []side{callers.side("one box", scaleClients, scaleTime)}
		for n := range scaleBoxes {
			behind := callers.at(r.startProxy(boxes[:n+1]...).REST, callers.path)
			sides = append(sides, behind.side(fmt.Sprintf("%d behind HAProxy", n+1), scaleClients, scaleTime))
		}
		all := m.interleave(sides)
		for n := range scaleBoxes {
			r.report(known(fmt.Sprintf("%s, %s: rate, %s / one box", words, count(scaleClients), sides[n+1].name), all[n+1].over(all[0]), "x",
				fmt.Sprintf("%.0f/s against %.0f/s, p99 %.1f ms against %.1f ms", all[n+1].rate(), all[0].rate(),
					1e3*all[n+1].p99(), 1e3*all[0].p99())))
		}
		r.latencies(words+", "+count(scaleClients), "ms", sides, all)
	}
}
