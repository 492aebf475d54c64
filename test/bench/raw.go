package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// raw is a session of ONNX Runtime called in a tight loop: the limit that a server is held against. One session is
// shared by all callers, with one thread each, which is the fastest arrangement on a CPU.
type raw struct {
	session *ort.Session
	inputs  []edgewise.Tensor
	outputs []string
}

func newRaw(model string, in edgewise.Tensor, output string) (*raw, error) {
	lib, err := ort.Open([]string{"bin/lib/libonnxruntime.so.1"})
	if err != nil {
		return nil, err
	}
	session, err := lib.NewSession(model, []string{in.Name}, []string{output}, ort.Options{})
	if err != nil {
		return nil, err
	}
	return &raw{session, []edgewise.Tensor{in}, []string{output}}, nil
}

// rate returns runs a second of a number of callers, each on a thread of its own.
func (r *raw) rate(callers int, during time.Duration) (float64, error) {
	return rate(callers, during, func(int) (func() error, error) {
		runtime.LockOSThread()
		return func() error {
			result, err := r.session.Run(context.Background(), r.inputs, r.outputs)
			if err == nil {
				result.Free()
			}
			return err
		}, nil
	})
}

// rate runs a step over and over in a number of goroutines and returns steps a second. Each makes its step first.
func rate(callers int, during time.Duration, start func(caller int) (step func() error, err error)) (float64, error) {
	var count atomic.Int64
	var callersDone, ready sync.WaitGroup
	failed := make(chan error, callers)
	begin := make(chan time.Time)
	ready.Add(callers)
	for i := range callers {
		callersDone.Go(func() {
			step, err := start(i)
			ready.Done()
			end := <-begin
			for err == nil && time.Now().Before(end) {
				if err = step(); err == nil {
					count.Add(1)
				}
			}
			if err != nil {
				failed <- err
			}
		})
	}
	ready.Wait()
	from := time.Now()
	for range callers {
		begin <- from.Add(during)
	}
	callersDone.Wait()
	took := time.Since(from)
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(count.Load()) / took.Seconds(), nil
	}
}
