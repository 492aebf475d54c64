package main

import (
	"context"
	"runtime"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// raw is a session of ONNX Runtime called in a tight loop: the limit that a server is held against. One session is
// shared by all callers, with one thread each, which gives the most runs a second on a CPU.
type raw struct {
	session *ort.Session
	inputs  []edgewise.Tensor
}

func (r *run) raw(model string, in edgewise.Tensor, o ort.Options) *raw {
	lib, err := ort.Open([]string{"bin/lib/libonnxruntime.so.1"}, ort.Process{})
	r.check(err)
	session, err := lib.NewSession(model, []string{in.Name}, []string{outputName}, o)
	r.check(err)
	return &raw{session, []edgewise.Tensor{in}}
}

// dial makes a caller on a thread of its own.
func (r *raw) dial() (call func() error, end func(), err error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the caller's goroutine
	return func() error {
		result, err := r.session.Run(context.Background(), r.inputs, []string{outputName}, edgewise.RunOptions{})
		if err == nil {
			result.Free()
		}
		return err
	}, func() {}, nil
}

// side is a loop of callers as a side that is compared.
func (r *raw) side(name string, callers int, during time.Duration) side {
	return side{name, func() (sample, error) { return closedLoop(r.dial, callers, during) }}
}
