package wasm

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// program is a module that was checked and compiled, with what its guests share.
type program struct {
	config   Config
	settings settings
	id       edgewise.ModelID
	module   *fuel.Module
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil: none
	compiled wazero.CompiledModule
	logger   *slog.Logger
	lines    lines
	model    map[string]edgewise.ModelParam
	large    chan struct{} // the backend's: a token for each large picture that is decoded
	turns    *turns        // the backend's, of guests that run for long; nil: none is long
	running  *atomic.Int32 // the backend's: guests that serve a request
	threads  int           // of the runtime, that run Go at a time
	image    *state        // a guest after its set-up; nil: guests are not put back
	epoch    time.Time     // of the guests' monotonic clock
	seed     [sha256.Size]byte

	guests  atomic.Int64  // that exist
	created atomic.Uint64 // ever

	suspected atomic.Int64 // until when the version is on probation, since the epoch
}

// build reads, checks and compiles a module. Errors: Invalid, TooLarge (the module), Internal (the disk).
func (b *Backend) build(ctx context.Context, path string, id edgewise.ModelID, m *edgewise.Model) (*program, error) {
	data, err := readModule(path, b.config.limits().Bytes)
	if err != nil {
		return nil, err
	}
	set, err := parseSettings(m, b.config)
	if err != nil {
		return nil, err
	}
	limits := b.config.limits()
	limits.Pages = uint32(set.memory / fuel.PageSize)
	rewrite := fuel.Rewrite
	if b.config.Stopping != Fuel {
		rewrite = fuel.Expose
	}
	module, err := rewrite(data, limits)
	if err != nil {
		return nil, err
	}
	if err := checkModule(module); err != nil {
		return nil, err
	}
	p := &program{config: b.config, settings: set, id: id, module: module, model: m.Parameters, large: b.large, turns: b.turns, running: &b.running, threads: runtime.GOMAXPROCS(0), epoch: time.Now(), seed: sha256.Sum256(data), logger: b.config.Logger.With("model", m.Name, "version", id.Version)}
	if err := b.compile(ctx, p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// readModule reads a file of at most limit bytes.
func readModule(path string, limit int) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, edgewise.Errorf("wasm.Inspect", edgewise.Invalid, "there is no file %q", filepath.Base(path))
	case err != nil:
		return nil, edgewise.Errorf("wasm.Inspect", edgewise.Internal, "%w", err)
	case !info.Mode().IsRegular():
		return nil, edgewise.Errorf("wasm.Inspect", edgewise.Invalid, "%q is not a regular file", filepath.Base(path))
	case info.Size() > int64(limit):
		return nil, edgewise.Errorf("wasm.Inspect", edgewise.TooLarge, "module: %d bytes: at most %d are allowed", info.Size(), limit)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, edgewise.Errorf("wasm.Inspect", edgewise.Internal, "%w", err)
	}
	return data, nil
}

// compile makes the runtime of p and compiles its module, one program at a time: compiling takes memory.
func (b *Backend) compile(ctx context.Context, p *program) error {
	select {
	case b.compiling <- struct{}{}:
		defer func() { <-b.compiling }()
	case <-ctx.Done():
		return edgewise.Errorf("wasm.compile", edgewise.KindOf(ctx.Err()), "waiting to compile a step: %w", ctx.Err())
	}
	if b.config.CacheDir == "" {
		return p.compile(ctx, "")
	}
	kept := cache{b.config.CacheDir, b.config.CacheBytes}
	err := b.compileKept(ctx, p, kept)
	if err == nil {
		err = kept.prune()
	}
	var known *edgewise.Error
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &known) && known.Kind != edgewise.Internal:
		return err
	case p.compiled == nil:
		p.close()
		if again := p.compile(ctx, ""); again != nil {
			return again
		}
	}
	b.config.Logger.Warn("the cache of compiled steps cannot be used", "folder", b.config.CacheDir, "error", err)
	return nil
}

// compileKept compiles with the cache.
func (b *Backend) compileKept(ctx context.Context, p *program, kept cache) error {
	dir, err := kept.folder(p.module.Binary)
	if err != nil {
		return err
	}
	if err := p.compile(ctx, dir); err != nil {
		return err
	}
	return kept.seal(dir)
}

// compile compiles the module, or takes it from a cache in dir. It is tried within Config.CompileTimeout.
func (p *program) compile(ctx context.Context, dir string) error {
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(p.module.MaxPages + 1).WithDebugInfoEnabled(false).WithCloseOnContextDone(p.config.Stopping == Interruption)
	if dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return edgewise.Errorf("wasm.compile", edgewise.Internal, "cache of compiled steps: %w", err)
		}
		p.cache, config = cache, config.WithCompilationCache(cache)
	}
	p.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := p.hosts(ctx); err != nil {
		return edgewise.Errorf("wasm.compile", edgewise.Internal, "the box's own imports: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, p.config.CompileTimeout)
	defer cancel()
	var err error
	p.compiled, err = p.runtime.CompileModule(experimental.WithCompilationWorkers(limited, compileWorkers), p.module.Binary)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return edgewise.Errorf("wasm.compile", edgewise.KindOf(ctx.Err()), "compiling a step: %w", ctx.Err())
	case limited.Err() != nil:
		return edgewise.Errorf("wasm.compile", edgewise.TooLarge, "module: compiling it takes more than %v", p.config.CompileTimeout)
	}
	return edgewise.Errorf("wasm.compile", edgewise.Invalid, "module: %w", err)
}

// compileWorkers is above 1: only then does the runtime look at its context between two functions.
const compileWorkers = 2

// hosts defines the modules that a step may import from.
func (p *program) hosts(ctx context.Context) error {
	i32 := []api.ValueType{api.ValueTypeI32}
	_, err := p.runtime.NewHostModuleBuilder(fuel.HookModule).NewFunctionBuilder().WithGoFunction(api.GoFunc(refill), i32, i32).Export(fuel.HookName).Instantiate(ctx)
	if err != nil {
		return err
	}
	for name, functions := range hostModules() {
		if !slices.ContainsFunc(p.module.Imports, func(i fuel.Import) bool { return i.Module == name }) {
			continue
		}
		builder := p.runtime.NewHostModuleBuilder(name)
		for _, f := range functions {
			t := f.sign.funcType()
			builder = builder.NewFunctionBuilder().WithGoModuleFunction(f.bind(), []api.ValueType(t.Params), []api.ValueType(t.Results)).Export(f.name)
		}
		if _, err := builder.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close gives the code back. There are no guests any more.
func (p *program) close() {
	ctx := context.Background()
	if p.runtime != nil {
		_ = p.runtime.Close(ctx)
		p.runtime = nil
	}
	if p.cache != nil {
		_ = p.cache.Close(ctx)
		p.cache = nil
	}
}

// lines limits how much a version logs.
type lines struct {
	mu     sync.Mutex // guards what follows
	second int64
	count  int
	lost   int
}

// allow tells whether a line may be logged now, and how many were not since the last one that was.
func (l *lines) allow(now time.Time) (ok bool, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.count = s, 0
	}
	if l.count++; l.count > MaxLogLines {
		l.lost++
		return false, 0
	}
	lost, l.lost = l.lost, 0
	return true, lost
}
