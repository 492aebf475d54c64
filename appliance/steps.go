package appliance

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/wasm"
)

// newWasm makes the backend of steps. What a step asks other models goes through their queues, as a client's requests do.
func newWasm(a *App, c config.Config, budget *cores.Budget, logger *slog.Logger) *wasm.Backend {
	return wasm.New(wasm.Config{
		CacheDir: filepath.Join(c.DataDir, "cache", "wasm"), CacheBytes: int64(c.Wasm.CacheBytes), MaxMemory: int64(c.Wasm.MaxMemoryBytes),
		RunTimeout: c.Wasm.RunTimeout, Infer: a.nested(), Cores: budget, Logger: logger.With("part", "wasm"),
	})
}

// sweepSteps removes the machine code of steps that are not stored any more.
func (a *App) sweepSteps() {
	stored := map[edgewise.Digest]bool{}
	for _, r := range a.store.Records() {
		for _, v := range r.Versions {
			for _, f := range v.Files {
				stored[f.Digest] = true
			}
		}
	}
	if err := a.steps.Sweep(func(d edgewise.Digest) bool { return stored[d] }); err != nil {
		a.logger.Warn("machine code of steps that are gone cannot be removed", "error", err)
	}
}

// nested answers the requests that models send to each other.
func (a *App) nested() edgewise.Inferer { return inferer(func() edgewise.Inferer { return a.inside }) }

// inferer looks up who answers when it is asked: the manager is built after the backends.
type inferer func() edgewise.Inferer

// Infer asks whoever answers now.
func (i inferer) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return i().Infer(ctx, req)
}
