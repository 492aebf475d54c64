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

// Limits are what a step may use, and whom it may call. Zero fields stand for the defaults of the box.
type Limits struct {
	Memory  int64            // bytes of the guest's memory
	Timeout time.Duration    // of one request
	Start   time.Duration    // of compiling the module, and of each guest's start and description
	Infer   edgewise.Inferer // the models that the step may call; nil: those of the case that runs
}

// Loaded is a step that runs here, as a box runs it.
type Loaded struct {
	Model    *edgewise.Model // as described by the module, and by the configuration where there is one
	instance edgewise.Instance
	models   *models
	lines    *lines
	work     string // folder of the compiled module, which is read and then loaded, and of the key of its seal
}

// Load loads the module of the step in dir, and its configuration where a config.pbtxt, config.yaml or config.json lies
// there. The caller closes it. Errors: NotFound (it has not been built), and those of the box: Invalid, TooLarge,
// Guest.
func Load(ctx context.Context, dir string, l Limits) (*Loaded, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, made(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ModuleFile)); err != nil {
		return nil, edgewise.Errorf("step.Load", edgewise.NotFound, "%s is not there: build the step first", filepath.Join(dir, ModuleFile))
	}
	loaded := &Loaded{models: &models{}, lines: &lines{}}
	if l.Infer == nil {
		l.Infer = loaded.models
	}
	if loaded.work, err = os.MkdirTemp("", "edgewise-step-"); err != nil {
		return nil, made(err)
	}
	backend := wasm.New(wasm.Config{
		CacheDir: filepath.Join(loaded.work, "cache"), MaxMemory: l.Memory, RunTimeout: l.Timeout, CompileTimeout: l.Start, SetupTimeout: l.Start,
		Infer: l.Infer, Logger: slog.New(loaded.lines), Pause: -1,
	})
	if err := loaded.start(ctx, backend, dir, modelName(filepath.Base(absolute))); err != nil {
		os.RemoveAll(loaded.work)
		return nil, err
	}
	return loaded, nil
}

// start reads the module and makes its guests.
func (l *Loaded) start(ctx context.Context, backend edgewise.Backend, dir, name string) (err error) {
	if l.Model, err = understand(ctx, backend, dir, name); err != nil {
		return err
	}
	version := &edgewise.Version{ID: edgewise.ModelID{Name: l.Model.Name, Version: 1}, Model: l.Model}
	l.instance, err = backend.Load(ctx, version, dir, edgewise.Device{})
	return err
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
	files, defaults := []string{ModuleFile}, modelconfig.Defaults{Formats: backend.Formats(), InstanceCount: 1}
	if declared, err = modelconfig.Identify(declared, name, files, defaults); err != nil {
		return nil, err
	}
	inspection, err := backend.Inspect(ctx, dir, declared)
	if err != nil {
		return nil, err
	}
	m, err := modelconfig.Complete(declared, name, files, inspection, defaults)
	if err != nil {
		return nil, err
	}
	if err := modelconfig.Validate(m, files, inspection, defaults); err != nil {
		return nil, err
	}
	return m, checkReshapes(m)
}

// Close ends the step.
func (l *Loaded) Close() error {
	err := l.instance.Close()
	if removing := os.RemoveAll(l.work); err == nil {
		err = removing
	}
	return err
}

// Infer answers a request, as a box without other requests would. Errors: Invalid (the inputs are not those of the
// step), Guest, Deadline, Canceled.
func (l *Loaded) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if err := checkInputs(req, l.Model); err != nil {
		return nil, err
	}
	result, err := l.run(ctx, req, l.outputNames(req))
	if err != nil {
		return nil, err
	}
	timing := edgewise.Timing{Input: result.Input, Infer: result.Infer, Output: result.Output, Batch: 1, Guest: result.Guest}
	return &edgewise.Response{
		Model: edgewise.ModelID{Name: l.Model.Name, Version: 1}, Outputs: result.Outputs,
		Timing: timing, Free: result.Free,
	}, nil
}

var _ edgewise.Inferer = (*Loaded)(nil)

// Log returns the lines that the step has written since the last call.
func (l *Loaded) Log() []string { return l.lines.take() }

// run answers one request with the outputs named in want. The caller calls Free of the result.
func (l *Loaded) run(ctx context.Context, req *edgewise.Request, want []string) (*edgewise.Result, error) {
	result, err := l.instance.Run(ctx, l.reshaped(req.Inputs), want, edgewise.RunOptions{Parameters: req.Parameters})
	if err != nil {
		return nil, err
	}
	for i := range result.Outputs {
		t := &result.Outputs[i]
		k := slices.IndexFunc(l.Model.Output, func(o edgewise.ModelOutput) bool { return o.Name == t.Name })
		if o := l.Model.Output[k]; o.Reshape != nil {
			t.Shape = o.Dims
		}
	}
	return result, nil
}

// reshaped gives inputs the shapes that the step wants. Load has checked that those are fixed.
func (l *Loaded) reshaped(inputs []edgewise.Tensor) []edgewise.Tensor {
	inputs = slices.Clone(inputs)
	for i := range inputs {
		k := slices.IndexFunc(l.Model.Input, func(in edgewise.ModelInput) bool { return in.Name == inputs[i].Name })
		if in := l.Model.Input[k]; in.Reshape != nil {
			inputs[i].Shape = in.Reshape.Shape
		}
	}
	return inputs
}

// checkReshapes refuses what only a scheduler can do.
func checkReshapes(m *edgewise.Model) error {
	shapes := map[string]*edgewise.Reshape{}
	for _, in := range m.Input {
		shapes[in.Name] = in.Reshape
	}
	for _, out := range m.Output {
		shapes[out.Name] = out.Reshape
	}
	for name, r := range shapes {
		if r != nil && (m.MaxBatchSize > 0 || slices.Contains(r.Shape, -1)) {
			return edgewise.Errorf("step.Load", edgewise.Unsupported, "tensor %q: a reshape with batches or sizes of -1 needs a box", name)
		}
	}
	return nil
}

// outputNames are all outputs, or those that req names.
func (l *Loaded) outputNames(req *edgewise.Request) []string {
	if len(req.Outputs) > 0 {
		return req.Outputs
	}
	var names []string
	for _, out := range l.Model.Output {
		names = append(names, out.Name)
	}
	return names
}
