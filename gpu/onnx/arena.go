package onnx

import (
	"strconv"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// arenas are the arenas that this process has made, one for each device on which several sessions share one.
type arenas struct {
	mu   sync.Mutex
	made map[int]bool // by device
}

// share makes the arena of a device when there is none.
func (a *arenas) share(lib *ort.Library, device int, options map[string]string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made[device] {
		return nil
	}
	most, _ := strconv.ParseInt(options["gpu_mem_limit"], 10, 64) // it has been checked; without one there is no bound
	if err := lib.ShareArena(device, most, options["arena_extend_strategy"] == "kNextPowerOfTwo"); err != nil {
		return err
	}
	if a.made == nil {
		a.made = map[int]bool{}
	}
	a.made[device] = true
	return nil
}

// sharesArena tells whether the sessions of a model take from one arena. What one of them gives back at the end of a run, when its kernels are
// on their stream and not yet done, another one takes: so all of them work on one stream. A graph remembers the addresses of what it was
// captured with, which nobody may take from under it: so the two do not go together.
func sharesArena(m *edgewise.Model) (bool, error) {
	if m.Parameters[edgewise.SharedArenaParameter].StringValue != "on" {
		return false, nil
	}
	if m.Optimization != nil && m.Optimization.CUDA != nil && m.Optimization.CUDA.Graphs {
		return false, edgewise.Errorf("onnx.Load", edgewise.Unsupported, "model %q: parameter %q and optimization.cuda.graphs exclude each other", m.Name, edgewise.SharedArenaParameter)
	}
	return true, nil
}

// shareArena makes the arena, and the stream on which all sessions of the load compute.
func (l *gpuLoad) shareArena() (err error) {
	l.shared, err = sharesArena(l.version.Model)
	if err != nil || !l.shared {
		return err
	}
	list, err := providers(l.version.Model, l.on.Index, nil, false)
	if err != nil {
		return err
	}
	lib, err := l.backend.open()
	if err != nil {
		return err
	}
	if err := l.backend.arenas.share(lib, l.on.Index, list[len(list)-1].Options); err != nil { // CUDA is the last one
		return edgewise.Errorf("onnx.Load", edgewise.KindOf(err), "model %v: %w", l.version.ID, err)
	}
	l.compute, err = l.ctx.MakeStream()
	return err
}

// closeStream closes a stream that may not be there.
func closeStream(s *cuda.Stream) error {
	if s == nil {
		return nil
	}
	return s.Close()
}
