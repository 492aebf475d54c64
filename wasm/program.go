package wasm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// program is a module that was checked and compiled, with what its guests share.
type program struct {
	config   Config
	settings settings
	id       edgewise.ModelID
	module   *fuel.Module
	size     int     // bytes of the module as it was uploaded
	runtime  *engine // nil: its machine code has not been read
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

// source is what a program is made of.
type source struct {
	path  string // of the module
	id    edgewise.ModelID
	model *edgewise.Model
	again bool // what a compiler said against it earlier does not count
}

// prepare reads and checks a module and makes it stoppable. Errors: Invalid, TooLarge (the module), Internal (the
// disk).
func (b *Backend) prepare(s source) (*program, error) {
	data, err := readModule(s.path, b.config.limits().Bytes)
	if err != nil {
		return nil, err
	}
	set, err := parseSettings(s.model, b.config)
	if err != nil {
		return nil, err
	}
	limits := b.config.limits()
	limits.Pages = uint32(set.memory / fuel.PageSize)
	module, err := fuel.Rewrite(data, limits)
	if err != nil {
		return nil, err
	}
	if err := checkModule(module); err != nil {
		return nil, err
	}
	return &program{
		config: b.config, settings: set, id: s.id, module: module, size: len(data), model: s.model.Parameters, large: b.large,
		turns: b.turns, running: &b.running,
		threads: runtime.GOMAXPROCS(0), epoch: time.Now(), seed: sha256.Sum256(data),
		logger: b.config.Logger.With("model", s.model.Name, "version", s.id.Version),
	}, nil
}

// key names the machine code of p in the cache: the digests of the module as it was uploaded and as it is compiled.
func (p *program) key() string {
	compiled := sha256.Sum256(p.module.Binary)
	return fmt.Sprintf("%x-%x", p.seed, compiled[:16])
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

// hosts defines the modules that a step may import from.
func (p *program) hosts(ctx context.Context) error {
	i32 := []api.ValueType{api.ValueTypeI32}
	_, err := p.runtime.NewHostModuleBuilder(fuel.HookModule).NewFunctionBuilder().WithGoFunction(api.GoFunc(refill), i32,
		i32).Export(fuel.HookName).Instantiate(ctx)
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
			builder = builder.NewFunctionBuilder().WithGoModuleFunction(f.bind(), []api.ValueType(t.Params),
				[]api.ValueType(t.Results)).Export(f.name)
		}
		if _, err := builder.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close gives the code back. There are no guests any more.
func (p *program) close() {
	if p.runtime != nil {
		p.runtime.close()
		p.runtime = nil
	}
}
