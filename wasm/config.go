package wasm

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

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
