package main

import (
	"context"
	"runtime"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// raw is a session of ONNX Runtime called in a tight loop: the limit that a server is held against. One session is
// shared by all callers, with one thread each, which gives the most runs a second on a CPU.
type raw struct {
	session *ort.Session
	inputs  []edgewise.Tensor
	outputs []string
}

func newRaw(model string, in edgewise.Tensor, o ort.Options) (*raw, error) {
	lib, err := ort.Open([]string{"bin/lib/libonnxruntime.so.1"})
	if err != nil {
		return nil, err
	}
	session, err := lib.NewSession(model, []string{in.Name}, []string{outputName}, o)
	if err != nil {
		return nil, err
	}
	return &raw{session, []edgewise.Tensor{in}, []string{outputName}}, nil
}

// loop runs a number of callers for a while, each on a thread of its own.
func (r *raw) loop(callers int, during time.Duration) (sample, error) {
	begin := time.Now()
	s, err := together(callers, during, func(_ int, latencies *perf.Histogram) error {
		runtime.LockOSThread()
		return r.call(begin.Add(during), latencies)
	})
	s.rate *= during.Seconds() / time.Since(begin).Seconds() // the last calls end later
	return s, err
}

// side is that loop as a side that is compared.
func (r *raw) side(name string, callers int, during time.Duration) side {
	return side{name, func() (sample, error) { return r.loop(callers, during) }}
}

func (r *raw) call(end time.Time, latencies *perf.Histogram) error {
	for now := time.Now(); now.Before(end); {
		result, err := r.session.Run(context.Background(), r.inputs, r.outputs, edgewise.RunOptions{})
		if err != nil {
			return err
		}
		result.Free()
		then := now
		now = time.Now()
		latencies.Record(now.Sub(then))
	}
	return nil
}
