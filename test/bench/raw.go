package main

import (
	"context"
	"runtime"
	"sync"
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

func newRaw(model string, in edgewise.Tensor) (*raw, error) {
	return newRawOf(model, in, ort.Options{})
}

// newLone is a raw loop for one caller, with a thread on each of the two cores.
func newLone(model string, in edgewise.Tensor) (*raw, error) {
	return newRawOf(model, in, ort.Options{IntraThreads: 2, Spin: true, Rest: true})
}

func newRawOf(model string, in edgewise.Tensor, o ort.Options) (*raw, error) {
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
	var wait sync.WaitGroup
	latencies := make([]perf.Histogram, callers)
	failures := make([]error, callers)
	begin := time.Now()
	for i := range callers {
		wait.Go(func() {
			runtime.LockOSThread()
			failures[i] = r.call(begin.Add(during), &latencies[i])
		})
	}
	wait.Wait()
	took := time.Since(begin)
	for i := 1; i < callers; i++ {
		latencies[0].Merge(&latencies[i])
	}
	for _, err := range failures {
		if err != nil {
			return sample{}, err
		}
	}
	return newSample(&latencies[0], took), nil
}

func (r *raw) call(end time.Time, latencies *perf.Histogram) error {
	for now := time.Now(); now.Before(end); {
		result, err := r.session.Run(context.Background(), r.inputs, r.outputs)
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
