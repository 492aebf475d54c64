package onnx

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/gpu/preprocess"
	"github.com/edgewise-ai/edgewise/gpu/provider"
	"github.com/edgewise-ai/edgewise/gpu/vulkan"
)

// GPU configures the use of GPUs.
type GPU struct {
	Driver  string   // path of the CUDA driver; empty: searched
	Folders []string // in which NVIDIA's libraries are looked for first
	Loader  string   // path of the Vulkan loader; empty: searched
}

// machine is what a process needs before it can use a GPU, found once.
type machine struct {
	driver *cuda.Driver
	cudnn  bool
}

// openMachine opens the driver and what ONNX Runtime's provider needs, in the order that the dynamic linker wants.
func (b *Backend) openMachine() (*machine, error) {
	lib, err := b.open()
	if err != nil {
		return nil, err
	}
	driver, err := cuda.Open(cuda.Candidates(b.config.GPU.Driver))
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(lib.Path)
	file, err := provider.Read(dir, provider.CUDA)
	if err != nil {
		return nil, edgewise.Errorf("onnx.Load", edgewise.Unavailable, "%w", err)
	}
	libraries, err := file.OpenAll(provider.Folders(b.config.GPU.Folders, dir))
	if err != nil {
		return nil, err
	}
	m := &machine{driver: driver}
	m.cudnn = slices.ContainsFunc(libraries, func(l provider.Library) bool {
		return l.Name == provider.CuDNN && l.Problem == ""
	})
	return m, nil
}

// loadGPU makes an instance on a GPU: as many sessions as the model's instance groups put there, each with a ring where
// the device has streams and the model's sizes are known, and all of them have run once for each batch size.
func (b *Backend) loadGPU(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance,
	error,
) {
	inspection, err := b.Inspect(ctx, dir, v.Model)
	if err != nil {
		return nil, err
	}
	l := &gpuLoad{backend: b, version: v, dir: dir, on: on, file: inspection}
	if on.Kind == edgewise.Vulkan {
		err = l.openVulkan()
	} else {
		err = l.openCUDA()
	}
	if err != nil {
		return nil, err
	}
	instance, err := l.load(ctx)
	if err != nil {
		return nil, errors.Join(err, l.undo())
	}
	return instance, nil
}

// openCUDA opens the driver and its libraries, and takes the device.
func (l *gpuLoad) openCUDA() error {
	m, err := l.backend.machine()
	if err != nil {
		return l.cannotRun(edgewise.Unavailable, err)
	}
	if ops := needCuDNN(l.file); !m.cudnn && len(ops) > 0 {
		return edgewise.Errorf("onnx.Load", edgewise.Unsupported,
			"model %v: it cannot run on %v: %s need cuDNN, and %s was not found; install it, or use KIND_CPU", l.version.ID,
			l.on, strings.Join(ops, ", "), provider.CuDNN)
	}
	device, err := m.driver.GetDevice(l.on.Index)
	if err != nil {
		return err
	}
	l.ctx, err = device.Retain()
	return err
}

// openVulkan opens the loader where the provider finds it: by the name that is open already.
func (l *gpuLoad) openVulkan() error {
	if _, err := vulkan.Open(vulkan.Candidates(l.backend.config.GPU.Loader)); err != nil {
		return l.cannotRun(edgewise.Unavailable, err)
	}
	return nil
}

func (l *gpuLoad) cannotRun(kind edgewise.Kind, err error) error {
	return edgewise.Errorf("onnx.Load", kind, "model %v: it cannot run on %v: %w", l.version.ID, l.on, err)
}

// cudnnOperators are the operators that ONNX Runtime computes with cuDNN.
var cudnnOperators = []string{
	"Conv", "ConvTranspose", "FusedConv", "NhwcConv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool",
	"BatchNormalization", "InstanceNormalization", "LRN", "RNN", "LSTM", "GRU",
}

// needCuDNN lists the operators of a model that need cuDNN.
func needCuDNN(i *edgewise.Inspection) []string {
	var list []string
	for name := range i.Operators {
		if op := name[strings.LastIndex(name, ".")+1:]; slices.Contains(cudnnOperators, op) {
			list = append(list, op)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// gpuLoad is one load on its way.
type gpuLoad struct {
	backend  *Backend
	version  *edgewise.Version
	dir      string
	on       edgewise.Device
	ctx      *cuda.Ctx // nil on a Vulkan device
	file     *edgewise.Inspection
	sessions []edgewise.Instance
	rings    []*ring
	kernel   *preprocess.Kernel // nil: there is none
}

// undo gives back what a load that failed has made.
func (l *gpuLoad) undo() error {
	return release(l.rings, l.sessions, l.kernel, l.ctx)
}

func (l *gpuLoad) load(ctx context.Context) (edgewise.Instance, error) {
	m := l.version.Model
	sizes, err := buckets(m)
	if err != nil {
		return nil, err
	}
	n := m.PipelineSlots()
	config := ringConfig{Context: l.ctx, shapes: shapes{Buckets: sizes, Batched: m.MaxBatchSize > 0}, Slots: n}
	planned := false
	if len(sizes) > 0 {
		config.Inputs, config.Outputs, planned = plans(m, l.file, sizes[len(sizes)-1], n)
	}
	ringed := planned && l.ctx != nil
	graphs := l.ctx != nil && m.Optimization != nil && m.Optimization.CUDA != nil && m.Optimization.CUDA.Graphs
	if graphs && !ringed {
		return nil, edgewise.Errorf("onnx.Load", edgewise.Unsupported,
			"model %v: optimization.cuda.graphs: a graph needs inputs and outputs whose sizes are all fixed but for the batch", l.version.ID)
	}
	picture := ""
	if ringed {
		if picture, err = l.addKernel(&config); err != nil {
			return nil, err
		}
	}
	for range l.count() {
		if err := l.add(ctx, config, ringed, graphs); err != nil {
			return nil, err
		}
	}
	a := newAccelerated(l.version.ID, l.on, l.ctx, l.sessions, l.rings)
	a.picture, a.kernel = picture, l.kernel
	if planned {
		a.shapes = &config.shapes
	}
	if err := a.warm(ctx, graphs); err != nil {
		return nil, edgewise.Errorf("onnx.Load", edgewise.KindOf(err), "model %v: its first run on %v failed: %w",
			l.version.ID, l.on, err)
	}
	return a, nil
}

// count is how many sessions the version has on the device: one on a Vulkan device, where two of a process would
// disturb each other.
func (l *gpuLoad) count() int {
	if l.on.Kind == edgewise.Vulkan {
		return 1
	}
	return l.version.Model.InstancesOn(l.on)
}

// addKernel loads the kernel for a model whose input can be made of pictures. A device that does not take it makes
// none, and says so in the log; one that is lost fails the load.
func (l *gpuLoad) addKernel(c *ringConfig) (picture string, err error) {
	picture, ok := PictureInput(l.version.Model, l.file)
	if !ok {
		return "", nil
	}
	if l.kernel, err = preprocess.Load(l.ctx); err != nil {
		if edgewise.DeviceLost(err) {
			return "", err
		}
		l.backend.config.Logger.Warn("pictures are made into tensors on the CPU", "model", l.version.ID.String(), "device",
			l.on.String(), "error", err)
		return picture, nil
	}
	c.Kernel, c.Picture = l.kernel, pictureInput(c.Inputs)
	return picture, nil
}

// add makes one session and, if ringed, its ring, on whose compute stream the session works.
func (l *gpuLoad) add(ctx context.Context, config ringConfig, ringed, graphs bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var made *ort.Session
	open := func(stream *cuda.Stream) (err error) {
		if made != nil {
			return nil
		}
		made, err = l.session(stream, graphs)
		if err == nil {
			l.sessions = append(l.sessions, made)
		}
		return err
	}
	if !ringed {
		return open(nil)
	}
	config.Bind = func(compute *cuda.Stream, inputs, outputs []ort.Bound, id int) (bound, error) {
		if err := open(compute); err != nil {
			return nil, err
		}
		entries := map[string]string{"disable_synchronize_execution_providers": "1"}
		if graphs {
			entries["gpu_graph_id"] = strconv.Itoa(id)
		}
		return made.NewBinding(ort.BindingConfig{
			Inputs: inputs, Outputs: outputs, Memory: ort.DeviceMemory,
			Device: l.on.Index, RunEntries: entries,
		})
	}
	r, err := newRing(config)
	if err != nil {
		return err
	}
	l.rings = append(l.rings, r)
	return nil
}

// session loads the model with the providers that it asks for, on a stream when it is given one.
func (l *gpuLoad) session(stream *cuda.Stream, graphs bool) (*ort.Session, error) {
	lib, err := l.backend.open()
	if err != nil {
		return nil, err
	}
	options, err := sessionOptions(l.version.Model, 1) // the threads of a session on a GPU only feed it
	if err != nil {
		return nil, err
	}
	options.IntraThreads, options.InterThreads, options.Parallel, options.Spin = 1, 1, false, false
	if options.Providers, err = providers(l.version.Model, l.on, session{stream, graphs, l.backend.config.Kept}); err != nil {
		return nil, err
	}
	folder, file := modelFile(l.dir, l.version.Model)
	s, err := lib.NewSession(filepath.Join(folder, file), names(l.file.Inputs), names(l.file.Outputs), options)
	if err != nil {
		return nil, err
	}
	for _, text := range s.ProviderOptions() {
		l.backend.config.Logger.Info("provider of a session", "model", l.version.ID.String(), "device", l.on.String(),
			"options", text)
	}
	return s, nil
}

// graphRuns are the runs after which a graph of a batch size has been captured: two to settle, one to capture.
const graphRuns = 3

// warm runs every batch size once, so that no request waits for a search of kernels; for graphs, in every slot, until
// they have been captured.
func (a *accelerated) warm(ctx context.Context, graphs bool) error {
	if len(a.rings) == 0 && a.shapes != nil {
		return a.warmPlain(ctx)
	}
	for _, r := range a.rings {
		for i, s := range r.slots {
			if i > 0 && !graphs {
				break
			}
			for bucket, rows := range r.config.Buckets {
				for run := 0; run == 0 || graphs && run < graphRuns; run++ {
					if err := a.warmOnce(ctx, &batch{
						slot: s, bucket: bucket, rows: rows, pins: a.pins,
						want: every(r.config.Outputs),
					}); err != nil {
						return err
					}
				}
			}
		}
		if r.config.Kernel != nil { // the driver may compile it at its first launch
			dot := &pictures{
				pixels: make([]byte, 3), size: preprocess.Size{Width: 1, Height: 1},
				normals: make([]preprocess.Normal, 1),
			}
			if err := a.warmOnce(ctx, &batch{
				slot: r.slots[0], rows: 1, pins: a.pins, want: every(r.config.Outputs),
				pictures: dot,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmPlain runs zeros in every batch size, for which shaders are compiled.
func (a *accelerated) warmPlain(ctx context.Context) error {
	var want []string
	for i := range a.shapes.Outputs {
		want = append(want, a.shapes.Outputs[i].name)
	}
	for _, rows := range a.shapes.Buckets {
		result, err := a.direct(ctx, a.shapes.padded(nil, rows), want, edgewise.RunOptions{})
		if err != nil {
			return a.judge(err)
		}
		result.Free()
	}
	return nil
}

func every(plans []plan) []int {
	list := make([]int, len(plans))
	for i := range list {
		list[i] = i
	}
	return list
}

func (a *accelerated) warmOnce(ctx context.Context, b *batch) error {
	r := b.slot.ring
	for _, p := range r.config.Inputs {
		b.in = append(b.in, edgewise.Tensor{Data: make([]byte, p.size*int64(b.rows))})
	}
	if _, err := r.run(ctx, b); err != nil {
		return a.judge(err)
	}
	return nil
}
