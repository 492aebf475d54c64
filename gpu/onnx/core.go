package onnx

import (
	"context"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// placed is a session on the CPU whose runs are kept on the core that they have for themselves.
type placed struct{ *ort.Session }

// Run is Session.Run there.
func (p placed) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	defer keep(options.Core)()
	return p.Session.Run(ctx, in, want, options)
}

// keep keeps the calling goroutine and its thread on a core, counted from 1, until back is called; 0 leaves them where
// they are. A run that begins where another one is going on stays there for long: the kernel moves what is running
// seldom.
func keep(core int) (back func()) {
	var before, only unix.CPUSet
	if core == 0 {
		return func() {}
	}
	runtime.LockOSThread()
	only.Set(core - 1)
	if unix.SchedGetaffinity(0, &before) != nil || unix.SchedSetaffinity(0, &only) != nil { // slower, and right all the same
		runtime.UnlockOSThread()
		return func() {}
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}
