package wasm

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
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
		Answers: true,
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
	s := newStep(v, p, pool)
	if v.Model.Decoupled() {
		return stream{s}, nil
	}
	return s, nil
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

// Platform is the platform name of steps.
const Platform = "wasm"

// DefaultFilename is the name of a step's file when its configuration names none.
const DefaultFilename = "model.wasm"

// The defaults of Config.
const (
	DefaultMaxMemory      = 64 << 20 // bytes
	DefaultCacheBytes     = 256 << 20
	DefaultCompileTimeout = 30 * time.Second
	DefaultCompileMemory  = 512 << 20 // bytes
	DefaultSetupTimeout   = 2 * time.Second
	DefaultRunTimeout     = time.Minute
	DefaultPause          = 100 * time.Millisecond
	DefaultMaxPause       = 30 * time.Second
)

// MaxMemory bounds Config.MaxMemory: a memory of 32 bits ends at 4 GiB, and clearing a large one keeps a thread that
// long.
const MaxMemory = 1 << 30

// Config configures the backend. Zero stands for the default of a field.
type Config struct {
	CacheDir       string           // folder of compiled modules, which nobody else may write to; empty: they are not kept
	CacheBytes     int64            // what that folder may hold; above it the oldest go
	MaxMemory      int64            // bytes of a guest's memory, a multiple of 64 KiB, at most MaxMemory
	CompileTimeout time.Duration    // of one module
	CompileMemory  int64            // bytes that compiling a module may take, and that its machine code may have
	SetupTimeout   time.Duration    // of a guest's start, and of its description
	RunTimeout     time.Duration    // of one run, where its context ends no earlier
	Pause          time.Duration    // before a guest is replaced, once several in a row have failed; doubles. Below 0: none
	MaxPause       time.Duration    // the longest such pause
	Infer          edgewise.Inferer // what the import "infer" calls; nil: it always fails
	Cores          Cores            // what models run on, to which guests that run for long give way; nil: none does
	Logger         *slog.Logger
}

// complete returns c with its defaults.
func (c Config) complete() Config {
	c.CompileTimeout = cmp.Or(c.CompileTimeout, DefaultCompileTimeout)
	c.SetupTimeout = cmp.Or(c.SetupTimeout, DefaultSetupTimeout)
	c.RunTimeout = cmp.Or(c.RunTimeout, DefaultRunTimeout)
	c.Pause = cmp.Or(c.Pause, DefaultPause)
	c.MaxPause = cmp.Or(c.MaxPause, DefaultMaxPause)
	c.MaxMemory = min(cmp.Or(c.MaxMemory, DefaultMaxMemory), MaxMemory) / fuel.PageSize * fuel.PageSize
	c.CompileMemory = cmp.Or(c.CompileMemory, DefaultCompileMemory)
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// limits are what a module may hold.
func (c Config) limits() fuel.Limits {
	l := fuel.DefaultLimits()
	l.Pages = uint32(c.MaxMemory / fuel.PageSize)
	return l
}
