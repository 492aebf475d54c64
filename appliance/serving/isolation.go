package serving

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/host"
)

// isolationParameter is the model parameter that says where a model runs, as engine.isolation does for the box; beside
// that, groupPrefix and a name put it into a process that it shares with the others of that name.
const (
	isolationParameter = "isolation"
	groupPrefix        = "group:"
)

// isolation is a backend that loads each version where the configuration and the model's own parameter put it: into
// this process, or into one of its own.
type isolation struct {
	edgewise.Backend // in this process
	outside          edgewise.Backend
	policy           string // engine.isolation
}

// Isolate returns a backend that loads the versions of ONNX models where the configuration and their own parameter
// put them: with b in this process, or in one of their own, which has as many of the cores as b has.
func Isolate(b *onnx.Backend, c config.Config, cores int, d *Hardware, logger *slog.Logger) edgewise.Backend {
	return &isolation{
		Backend: b, policy: c.Engine.Isolation,
		outside: runner.New(runner.Config{
			Backend: b, Arguments: []string{ChildVerb}, ReadPaths: ort.Candidates(c.ONNX.Library),
			Options: childOptions{Library: c.ONNX.Library, Cores: cores, MaxMemory: MaxMemory(c), GPU: GPUOptions(c)},
			Group:   groupOf,
			Device:  d.place, Died: d.died, Environment: []string{hugePages},
			LoadTimeout: c.Engine.LoadTimeout, LoadTime: c.Engine.LoadCPUTime,
			AddressSpace: uint64(c.Engine.MaxAddressSpace), Logger: logger.With("part", "runner"),
		}),
	}
}

// hugePages has glibc ask for huge pages, where the kernel gives them to those who ask. Weights are copied twice while a
// model is loaded, and each first touch of a small page costs more than its copy.
const hugePages = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"

// groupOf is the name of the group whose process v asks to share; empty when it asks for none.
func groupOf(v *edgewise.Version) string {
	name, shares := strings.CutPrefix(v.Model.Parameters[isolationParameter].StringValue, groupPrefix)
	if !shares {
		return ""
	}
	return name
}

// Inspect reads the model's files. What they leave open and m does not declare, the runtime says, in the process in
// which it would load the model.
func (i *isolation) Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	ins, err := i.Backend.Inspect(ctx, dir, m)
	if err != nil {
		return nil, err
	}
	var described []edgewise.TensorInfo
	if ins.Open(m) {
		if described, err = i.describe(ctx, dir, m); err != nil {
			return nil, err
		}
	}
	ins.Settle(m, described)
	if len(ins.Outputs) == 0 {
		return nil, edgewise.Errorf("serving.inspect", edgewise.Unsupported,
			"model %q: none of its outputs can be served: %s", m.Name, ins.Omitted[0].Reason)
	}
	return ins, nil
}

func (i *isolation) describe(ctx context.Context, dir string, m *edgewise.Model) ([]edgewise.TensorInfo, error) {
	own, err := i.own(&edgewise.Version{Model: m})
	if err != nil {
		return nil, err
	}
	at := i.Backend
	if own {
		at = i.outside
	}
	describer, can := at.(runner.Describer)
	if !can {
		return nil, nil
	}
	return describer.Describe(ctx, dir, m)
}

// Load loads v into the process that is chosen for it. Error: Unsupported when v asks for less than a process of its
// own and the box does not let models choose that, or asks to share one on a GPU.
func (i *isolation) Load(
	ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device,
) (edgewise.Instance, error) {
	own, err := i.own(v)
	if err != nil {
		return nil, err
	}
	if on.Kind != edgewise.CPU && groupOf(v) != "" {
		return nil, edgewise.Errorf("serving.load", edgewise.Unsupported,
			"model %v: parameter %q is %q, but a model on a GPU has a process of its own for each GPU",
			v.ID, isolationParameter, groupPrefix+groupOf(v))
	}
	if own || on.Kind != edgewise.CPU { // what a fault on a GPU leaves behind ends with its process only
		return i.outside.Load(ctx, v, dir, on)
	}
	defer child.RestorePriority(os.Getpid())
	return i.Backend.Load(ctx, v, dir, on)
}

// own tells whether v gets a process that is not the box's. A model may always ask for one that is its own.
func (i *isolation) own(v *edgewise.Version) (bool, error) {
	asked := v.Model.Parameters[isolationParameter].StringValue
	switch {
	case asked == config.IsolationProcess:
		return true, nil
	case (asked == config.IsolationNone || groupOf(v) != "") && i.policy == config.IsolationProcess:
		return false, edgewise.Errorf("serving.load", edgewise.Unsupported,
			"model %v: parameter %q is %q, but this box runs every model in a process of its own: set engine.isolation to %q to let models choose",
			v.ID, isolationParameter, asked, config.IsolationModel)
	case asked == config.IsolationNone:
		return false, nil
	case groupOf(v) != "":
		return true, nil
	}
	return i.policy != config.IsolationNone, nil
}

// ChildVerb is the program's first argument when it is to be a child process of the box; see RunChild.
const ChildVerb = "runner"

// childOptions are what a child process needs of the configuration.
type childOptions struct {
	Library string `json:"library"`
	Cores   int    `json:"cores"`

	MaxMemory int64 `json:"max_memory"`

	GPU onnx.GPU `json:"gpu"`
}

// MaxMemory is how many bytes the runs on the CPU of one process may take: by default three quarters of what there is,
// so that one whose outputs grow leaves the box and the other models some.
func MaxMemory(c config.Config) int64 {
	if c.ONNX.MaxMemoryBytes > 0 {
		return int64(c.ONNX.MaxMemoryBytes)
	}
	return host.TotalMemory("/") / 4 * 3
}

// ModelMemory is how many bytes all loaded versions may take together; 0 when neither the configuration nor the system
// says.
func ModelMemory(c config.Config) int64 {
	if c.Engine.MaxMemoryBytes > 0 {
		return int64(c.Engine.MaxMemoryBytes)
	}
	return host.TotalMemory("/") / 4 * 3
}

// MemoryLow tells whether the machine, or the container or service in which the box runs, has so little memory left that
// models are to give some back, before the kernel ends processes: a twentieth, and at most 512 MiB.
func MemoryLow() bool { return memoryLow("/") }

func memoryLow(root string) bool {
	total := host.TotalMemory(root)
	return total > 0 && host.AvailableMemory(root) < min(total/20, keptFree)
}

// GPUOptions is what the backend needs of the configuration of GPUs.
func GPUOptions(c config.Config) onnx.GPU {
	return onnx.GPU{Driver: c.GPU.Driver, Folders: c.GPU.Libraries, Loader: c.GPU.Vulkan}
}

// RunChild is the life of a child process, which loads and runs one version for the box that has started it. It returns
// the exit code.
func RunChild() int {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return runner.Serve(func(s runner.Start) (edgewise.Backend, error) {
		var o childOptions
		if err := json.Unmarshal(s.Options, &o); err != nil {
			return nil, edgewise.Errorf("serving.RunChild", edgewise.Internal, "options: %w", err)
		}
		return onnx.New(onnx.Config{
			Library: o.Library, Cores: o.Cores, GPU: o.GPU, Kept: s.Kept, Logger: logger,
			Process: ort.Process{MaxMemory: o.MaxMemory, Alone: true, Missed: s.Again},
		}), nil
	})
}
