package wasm

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Backend loads steps.
type Backend struct {
	config    Config
	cache     *cache
	reading   chan struct{} // holds a token while a module is checked and its machine code read: both take memory
	compiling chan struct{} // holds a token while a module is compiled
	large     chan struct{} // holds a token while a large picture is decoded
	turns     *turns        // of guests that run for long; nil: none is long
	running   atomic.Int32  // guests that serve a request
}

var _ edgewise.Backend = (*Backend)(nil)

// New makes the backend. It touches nothing yet.
func New(c Config) *Backend {
	c = c.complete()
	return &Backend{
		config: c, cache: &cache{dir: c.CacheDir, bytes: c.CacheBytes}, reading: make(chan struct{}, 1),
		compiling: make(chan struct{}, 1), large: make(chan struct{}, 1), turns: newTurns(c.Cores),
	}
}

// Formats returns that of steps.
func (*Backend) Formats() []edgewise.Format {
	return []edgewise.Format{{
		Platform: Platform, Backend: "wasm", File: DefaultFilename, Devices: []edgewise.DeviceKind{edgewise.CPU}, Guest: true,
	}}
}

// Sweep removes the machine code of modules that are not stored any more from the cache. stored tells whether a file of
// that digest is. Machine code that was used within the last hour stays.
func (b *Backend) Sweep(stored func(edgewise.Digest) bool) error {
	return b.cache.sweep(time.Now(), stored)
}

// Inspect reads the module named by m in dir, has it compiled, which is kept in the cache, sets up a guest and asks it
// for its description, each within Config.SetupTimeout and the limits of any guest. Errors: Invalid and TooLarge (the
// module, or what m says), Guest (its set-up failed, or it did not answer).
func (b *Backend) Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	p, err := b.build(ctx, source{path: modelFile(dir, m), id: edgewise.ModelID{Name: m.Name}, model: m, again: true})
	if err != nil {
		return nil, err
	}
	defer p.close()
	g, err := p.newGuest(ctx)
	if err != nil {
		return nil, err
	}
	defer g.close()
	d, err := p.describe(ctx, g)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return declared(m), nil
	}
	return d.inspection(), nil
}

// Load takes the machine code of the module from the cache, or has it compiled, and makes its guests.
func (b *Backend) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance, error) {
	if on.Kind != edgewise.CPU {
		return nil, edgewise.Errorf("wasm.Load", edgewise.Unsupported, "model %v: a step runs on the CPU, not on %v", v.ID, on)
	}
	p, err := b.build(ctx, source{path: modelFile(dir, v.Model), id: v.ID, model: v.Model})
	if err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, p, guests(v.Model))
	if err != nil {
		p.close()
		return nil, err
	}
	return newStep(v, p, pool), nil
}

func modelFile(dir string, m *edgewise.Model) string {
	if m.DefaultModelFilename != "" {
		return filepath.Join(dir, m.DefaultModelFilename)
	}
	return filepath.Join(dir, DefaultFilename)
}

// guests is how many a version has: one for each instance that its configuration asks for, and one more, so that
// results can stay in a guest's memory while all instances run.
func guests(m *edgewise.Model) int {
	n := 0
	for _, g := range m.InstanceGroup {
		if !g.Passive {
			n += int(g.Count)
		}
	}
	return max(n, 1) + 1
}
