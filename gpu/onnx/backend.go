// Package onnx is the Backend that runs ONNX models on ONNX Runtime. What a file holds is read by onnxfile, in pure Go
// and within bounds, and nothing that it refuses reaches the native library behind package ort.
package onnx

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/gpu/onnx/work"
)

// Platform is the platform name of ONNX models.
const Platform = "onnxruntime_onnx"

// Config configures the backend. The zero value searches for the library.
type Config struct {
	Library string // path of ONNX Runtime's shared library; empty: searched, see ort.Candidates
	Cores   int    // most threads of one run; below 1: as many as there are cores
	GPU     GPU
	Kept    string // a folder for what is compiled for a model, which is the only one then; empty: nothing is kept
	Logger  *slog.Logger

	Process ort.Process // of all models on the CPU
}

// Backend loads ONNX models. It works without ONNX Runtime: then Inspect answers and Load says what is missing.
type Backend struct {
	config Config
	open   func() (*ort.Library, error)

	machine func() (*machine, error) // opened by the first load on a GPU
}

var _ edgewise.Backend = (*Backend)(nil)

// New makes the backend. The library is opened by the first call that needs it.
func New(c Config) *Backend {
	b := &Backend{config: c}
	b.open = sync.OnceValues(func() (*ort.Library, error) {
		lib, err := ort.Open(ort.Candidates(c.Library), c.Process)
		if err == nil {
			c.Logger.Info("runtime loaded", "runtime", lib.String())
		}
		return lib, err
	})
	b.machine = sync.OnceValues(b.openMachine)
	return b
}

// Formats returns that of ONNX models.
func (*Backend) Formats() []edgewise.Format {
	return []edgewise.Format{{
		Platform: Platform, Backend: "onnxruntime", File: DefaultFilename,
		Devices: []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU, edgewise.Vulkan},
	}}
}

// Library opens ONNX Runtime if that has not been done and returns what was loaded, or why nothing was.
func (b *Backend) Library() (*ort.Library, error) { return b.open() }

// Inspect reads the model file named by m in dir.
func (b *Backend) Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	folder, file := modelFile(dir, m)
	f, err := onnxfile.Read(folder, file, onnxfile.DefaultLimits())
	if err != nil {
		return nil, err
	}
	return &f.Inspection, ctx.Err()
}

// Load reads the model once more with the bounded reader and hands it to ONNX Runtime.
func (b *Backend) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance,
	error,
) {
	if on.Kind != edgewise.CPU {
		return b.loadGPU(ctx, v, dir, on)
	}
	inspection, err := b.Inspect(ctx, dir, v.Model)
	if err != nil {
		return nil, err
	}
	lib, err := b.open()
	if err != nil {
		return nil, err
	}
	options, err := sessionOptions(v.Model, b.cores())
	if err != nil {
		return nil, err
	}
	folder, file := modelFile(dir, v.Model)
	open := func(o ort.Options) (*ort.Session, error) {
		return lib.NewSession(filepath.Join(folder, file), names(inspection.Inputs), names(inspection.Outputs), o)
	}
	session, err := open(options)
	if err != nil {
		return nil, err
	}
	threads := v.Model.Concurrency(b.cores()).Solo
	if threads == 0 {
		return placed{session}, nil
	}
	options.IntraThreads, options.Spin, options.Rest, options.Nice = threads, true, true, wideNice
	second := func() (*ort.Session, error) {
		if err := roomFor(inspection.ParameterBytes, "/"); err != nil {
			return nil, err
		}
		return open(options)
	}
	return newWide(session, v.ID, second, b.config.Logger), nil
}

func (b *Backend) cores() int {
	if b.config.Cores < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return b.config.Cores
}

// modelFile returns the folder and the name of the model's file. A folder of that name holds a model with external
// data, as Triton's layout allows, under the default name.
func modelFile(dir string, m *edgewise.Model) (folder, file string) {
	name := m.DefaultModelFilename
	if name == "" {
		name = DefaultFilename
	}
	if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
		return filepath.Join(dir, name), DefaultFilename
	}
	return filepath.Join(dir, filepath.Dir(name)), filepath.Base(name)
}

// DefaultFilename is the name of a model's file when its configuration names none.
const DefaultFilename = "model.onnx"

func names(tensors []edgewise.TensorInfo) []string {
	list := make([]string, len(tensors))
	for i, t := range tensors {
		list[i] = t.Name
	}
	return list
}

// File reads everything that the model file says of itself but its weights, for display. Errors: those of Inspect.
func (b *Backend) File(dir string, m *edgewise.Model) (*onnxfile.File, error) {
	return b.read(dir, m, onnxfile.DefaultLimits())
}

// CountedFile is File with the attributes and the small tensors that package work needs.
func (b *Backend) CountedFile(dir string, m *edgewise.Model) (*onnxfile.File, error) {
	return b.read(dir, m, work.Limits())
}

func (b *Backend) read(dir string, m *edgewise.Model, l onnxfile.Limits) (*onnxfile.File, error) {
	if m.Platform != Platform {
		return nil, edgewise.Errorf("onnx.File", edgewise.Unsupported,
			"model %q has the platform %q: only ONNX models and ensembles have a graph", m.Name, m.Platform)
	}
	folder, file := modelFile(dir, m)
	return onnxfile.Read(folder, file, l)
}

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
	if core == 0 {
		return func() {}
	}
	var before, only unix.CPUSet
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

// asWritten is Triton's number for no optimization of the graph.
const asWritten = 2

// Describe loads the model as it is written and returns what ONNX Runtime has inferred of its outputs.
func (b *Backend) Describe(ctx context.Context, dir string, m *edgewise.Model) ([]edgewise.TensorInfo, error) {
	folder, file := modelFile(dir, m)
	if _, err := onnxfile.Read(folder, file, onnxfile.DefaultLimits()); err != nil { // nothing that it refuses reaches native code
		return nil, err
	}
	lib, err := b.open()
	if err != nil {
		return nil, edgewise.Errorf("onnx.Describe", edgewise.KindOf(err),
			"the model's file leaves the type or the shape of an output to the runtime: %w", err)
	}
	session, err := lib.NewSession(filepath.Join(folder, file), nil, nil, ort.Options{Optimization: asWritten})
	if err != nil {
		return nil, err
	}
	outputs, err := session.Outputs()
	if closing := session.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	infos := make([]edgewise.TensorInfo, len(outputs))
	for i, v := range outputs {
		infos[i] = edgewise.TensorInfo{Name: v.Name, Type: v.Type, Datatype: described(v), Shape: v.Shape}
	}
	return infos, ctx.Err()
}

// described says in words what a value is that is no tensor of a known type.
func described(v ort.Value) string {
	switch {
	case !v.Tensor:
		return "a sequence, a map or an optional"
	case v.Type == edgewise.InvalidType:
		return "a tensor of a type that the protocol does not have"
	}
	return v.Type.String()
}
