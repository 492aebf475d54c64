package step

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/wasm"
)

// Limits are what a step may use. Zero fields stand for the defaults of the box.
type Limits struct {
	Memory  int64         // bytes of the guest's memory
	Timeout time.Duration // of one request
}

// Loaded is a step that runs here, as a box runs it.
type Loaded struct {
	Model    *edgewise.Model // as described by the module, and by the configuration where there is one
	instance edgewise.Instance
	models   *models
	lines    *lines
}

// Load loads the module of the step in dir, and its configuration where a config.pbtxt, config.yaml or config.json lies there.
// The caller closes it. Errors: NotFound (it has not been built), and those of the box: Invalid, TooLarge, Guest.
func Load(ctx context.Context, dir string, l Limits) (*Loaded, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, made(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ModuleFile)); err != nil {
		return nil, edgewise.Errorf("step.Load", edgewise.NotFound, "%s is not there: build the step first", filepath.Join(dir, ModuleFile))
	}
	loaded := &Loaded{models: &models{}, lines: &lines{}}
	backend := wasm.New(wasm.Config{MaxMemory: l.Memory, RunTimeout: l.Timeout, Infer: loaded.models, Logger: slog.New(loaded.lines), Pause: -1})
	if loaded.Model, err = understand(ctx, backend, dir, modelName(filepath.Base(absolute))); err != nil {
		return nil, err
	}
	version := &edgewise.Version{ID: edgewise.ModelID{Name: loaded.Model.Name, Version: 1}, Model: loaded.Model}
	if loaded.instance, err = backend.Load(ctx, version, dir, edgewise.Device{}); err != nil {
		return nil, err
	}
	return loaded, nil
}

// modelName makes a name that a box accepts out of a folder's.
func modelName(folder string) string {
	name := strings.Map(func(r rune) rune {
		if edgewise.CheckName("x"+string(r)) == nil {
			return r
		}
		return '_'
	}, folder)
	if edgewise.CheckName(name) != nil {
		return "step"
	}
	return name
}

// understand makes the model that the module and its configuration declare, in the way the box does.
func understand(ctx context.Context, backend edgewise.Backend, dir, name string) (*edgewise.Model, error) {
	declared, err := modelconfig.Read(dir, name)
	if err != nil {
		return nil, err
	}
	if declared.Name != "" {
		name = declared.Name
	}
	files := []string{ModuleFile}
	if declared, err = modelconfig.Identify(declared, name, files); err != nil {
		return nil, err
	}
	inspection, err := backend.Inspect(ctx, dir, declared)
	if err != nil {
		return nil, err
	}
	m, err := modelconfig.Complete(declared, name, files, inspection, modelconfig.Defaults{InstanceCount: 1})
	if err != nil {
		return nil, err
	}
	return m, modelconfig.Validate(m, files, inspection)
}

// Close ends the step.
func (l *Loaded) Close() error { return l.instance.Close() }

// run answers one request with all outputs. The caller calls Free of the result.
func (l *Loaded) run(ctx context.Context, req *edgewise.Request) (*edgewise.Result, error) {
	var want []string
	for _, s := range l.Model.Outputs() {
		if len(req.Outputs) == 0 || slices.Contains(req.Outputs, s.Name) {
			want = append(want, s.Name)
		}
	}
	return l.instance.Run(edgewise.WithCall(ctx, edgewise.Call{Parameters: req.Parameters}), req.Inputs, want)
}
