package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/bench/roundtrip"
)

const (
	smallCall = 256 / 4     // elements
	largeCall = 600_000 / 4 // elements
	callTime  = 500 * time.Millisecond
	callTurns = 4 // a round
)

// language is one that a backend is written in, and what the box may add to a call of its function, in us.
type language struct {
	name, model  string
	small, large float64
}

func languages() []language {
	return []language{
		{"Go", "identity_go", 60, 150}, {"C++", "identity_cpp", 60, 150}, {"Python", "identity_python", 150, 300},
	}
}

// callFigures measure what the box adds to a call of a function in a backend: in the box, from the scheduler on and
// back, and for clients beside an identity of ONNX in a child.
func callFigures(elements int64) func(*run) {
	return func(r *run) {
		in := noise(edgewise.Shape{elements})
		r.addGoBackend("identity_go", goIdentity, "")
		r.addCPPBackend("identity_cpp", "test/bench/models/identity.cpp")
		b := r.startBox("engine.backends=" + r.ownBackends())
		r.push(b, "identity", identity(), identityConfig)
		r.pushPython(b, "identity_python", backendConfig("python", ""), "identity.py")
		for _, l := range languages()[:2] {
			r.check(b.push(l.model, "config.pbtxt", []byte(backendConfig(l.model, "")), ""))
		}
		m, size := r.machine(), map[int64]string{smallCall: "256 B", largeCall: "600 kB"}[elements]
		r.addedInside(m, b, in, size)
		r.addedOutside(m, b, in, size)
	}
}

// addedInside reports what the box adds from the queue on. The box says what a request took, and the model what its
// function took; with ONNX Runtime, which does not say it, all of it counts. The last side is the
// least that a call of another process can take.
func (r *run) addedInside(m *machine, b *box, in edgewise.Tensor, size string) {
	var sides []side
	for _, l := range append(languages(), language{name: "ONNX Runtime in a child", model: "identity"}) {
		request := r.timedRequest(b, l.model, in)
		sides = append(sides, side{l.name, func() (sample, error) { return b.timed(request, callTime) }})
	}
	echo, err := roundtrip.Start()
	r.check(err)
	r.later(echo.Close)
	sides = append(sides, side{"no box: 256 B through a socket to a process and back", func() (sample, error) {
		latencies, err := echo.Measure(callTime)
		if err != nil {
			return sample{}, err
		}
		return newSample(latencies, callTime), nil
	}})
	all := m.braid(callTurns, sides)
	for i, l := range languages() {
		most := map[string]float64{"256 B": l.small, "600 kB": l.large}[size]
		r.report(atMost(fmt.Sprintf("%s, %s: added to a call of the function, p50", l.name, size), 1e6*all[i].p50(), most, "us",
			fmt.Sprintf("p10 %.0f us, p90 %.0f us, p99 %.0f us; the function itself: %.1f us", 1e6*all[i].quick(), 1e6*all[i].p90(),
				1e6*all[i].p99(), 1e6*all[i].median(func(s sample) float64 { return s.own }))))
	}
	r.latencies(fmt.Sprintf("Identity of %s, in the box, from the queue to the response, the function's own time subtracted", size),
		"us", sides, all)
}

// timedRequest is a request that is answered with what it took.
func (r *run) timedRequest(b *box, model string, in edgewise.Tensor) []byte {
	body, jsonSize, err := kserve.AppendInferRequest(nil, &edgewise.Request{
		Inputs: []edgewise.Tensor{in}, Parameters: map[string]any{"timing": true},
	}, kserve.Binary, kserve.Binary)
	r.check(err)
	fields := fmt.Sprintf("%s%s: %d\r\n", octets, kserve.HeaderLength, jsonSize)
	request, err := perf.NewPost("http://"+b.address, inferPath(model), fields, body)
	r.check(err)
	return request.Bytes()
}

// timed sends a request over and over, one at a time, and returns what the box says that each took. The thread that waits
// for the answer sleeps: the box has both cores.
func (b *box) timed(request []byte, during time.Duration) (sample, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := connect(b.address)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		return sample{}, err
	}
	var latencies, functions perf.Histogram
	c := caller{fd: fd, buffer: make([]byte, 4*readBuffer)} // an answer, so that nothing is written over its beginning
	for begin := time.Now(); time.Since(begin) < during; {
		err := c.send(request, begin)
		var total, own time.Duration
		for complete := false; err == nil && !complete; {
			if complete, err = c.proceed(); total == 0 {
				total, own = told(c.buffer, "timing_total_ns"), told(c.buffer, "own_ns")
			}
		}
		if err != nil {
			return sample{}, err
		}
		if total == 0 {
			return sample{}, fmt.Errorf("no timing in %.500q", c.buffer)
		}
		if time.Since(begin) > warmTime {
			latencies.Record(total - own)
			functions.Record(own)
		}
	}
	s := newSample(&latencies, during)
	s.own = functions.Quantile(0.5).Seconds()
	return s, nil
}

// told is a time in the JSON of an answer, 0 where there is none.
func told(answer []byte, name string) time.Duration {
	_, rest, _ := bytes.Cut(answer, []byte(`"`+name+`":`))
	end := bytes.IndexAny(rest, ",}")
	ns, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return time.Duration(ns)
}

// addedOutside reports the medians of clients, and how much more they are than those of the same in ONNX Runtime.
func (r *run) addedOutside(m *machine, b *box, in edgewise.Tensor, size string) {
	for _, protocol := range []string{"REST", "gRPC"} {
		var sides []side
		of := func(name, model string) {
			dial := r.clients(b, model, in, kserve.Binary, anywhere).dial
			if protocol == "gRPC" {
				dial = grpcDialer(b.grpc, r.message(model, in))
			}
			sides = append(sides, side{name, func() (sample, error) { return closedLoop(dial, 1, callTime) }})
		}
		of("ONNX Runtime, in a child", "identity")
		for _, l := range languages() {
			of(l.name, l.model)
		}
		all := m.braid(callTurns, sides)
		for i, l := range languages() {
			r.report(known(fmt.Sprintf("%s, %s, %s: p50 more than with ONNX Runtime in a child", l.name, size, protocol),
				1e6*all[i+1].added(all[0]), "us", fmt.Sprintf("%.0f us against %.0f us", 1e6*all[i+1].p50(), 1e6*all[0].p50())))
		}
		r.latencies(fmt.Sprintf("Identity of %s over %s, 1 client", size, protocol), "us", sides, all)
	}
}
