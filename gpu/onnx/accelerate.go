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
)

// GPU configures the use of GPUs.
type GPU struct {
	Driver  string   // path of the CUDA driver; empty: searched
	Folders []string // in which NVIDIA's libraries are looked for first
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
// the model's sizes are known, and all of them have run once for each batch size.
func (b *Backend) loadGPU(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance,
	error,
) {
	inspection, err := b.Inspect(ctx, dir, v.Model)
	if err != nil {
		return nil, err
	}
	m, err := b.machine()
	if err != nil {
		return nil, edgewise.Errorf("onnx.Load", edgewise.Unavailable, "model %v: it cannot run on %v: %w", v.ID, on, err)
	}
	if ops := needCuDNN(inspection); !m.cudnn && len(ops) > 0 {
		return nil, edgewise.Errorf("onnx.Load", edgewise.Unsupported,
			"model %v: it cannot run on %v: %s need cuDNN, and %s was not found; install it, or use KIND_CPU", v.ID, on,
			strings.Join(ops, ", "), provider.CuDNN)
	}
	device, err := m.driver.GetDevice(on.Index)
	if err != nil {
		return nil, err
	}
	c, err := device.Retain()
	if err != nil {
		return nil, err
	}
	l := &gpuLoad{backend: b, version: v, dir: dir, on: on, ctx: c, file: inspection}
	instance, err := l.load(ctx)
	if err != nil {
		return nil, errors.Join(err, l.undo())
	}
	return instance, nil
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
	ctx      *cuda.Ctx
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
	config := ringConfig{Context: l.ctx, Buckets: sizes, Batched: m.MaxBatchSize > 0, Slots: n}
	ringed := false
	if len(sizes) > 0 {
		config.Inputs, config.Outputs, ringed = plans(m, l.file, sizes[len(sizes)-1], n)
	}
	graphs := m.Optimization != nil && m.Optimization.CUDA != nil && m.Optimization.CUDA.Graphs
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
	for range m.InstancesOn(l.on) {
		if err := l.add(ctx, config, ringed, graphs); err != nil {
			return nil, err
		}
	}
	a := newAccelerated(l.version.ID, l.on, l.ctx, l.sessions, l.rings)
	a.picture, a.kernel = picture, l.kernel
	if err := a.warm(ctx, graphs); err != nil {
		return nil, edgewise.Errorf("onnx.Load", edgewise.KindOf(err), "model %v: its first run on %v failed: %w",
			l.version.ID, l.on, err)
	}
	return a, nil
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
	if options.Providers, err = providers(l.version.Model, l.on.Index, stream, graphs); err != nil {
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
