package grpcapi

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/ordering"
)

// talk answers as a decoupled model: with as many responses as the parameter n says, each with its number, its input's
// bytes, and an end. The parameter fault is the number of a response that could not be made, fail that of the error that
// ends it all.
func (e *fakeEngine) talk(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if req.Each == nil {
		return nil, edgewise.Errorf("fake", edgewise.Unsupported, "it is decoupled")
	}
	answer := func() *edgewise.Response {
		return &edgewise.Response{ID: req.ID, Model: edgewise.ModelID{Name: "talker", Version: 1}}
	}
	for i := range req.Parameters["n"].(int64) {
		resp := answer()
		switch {
		case req.Parameters["fail"] == i:
			return nil, edgewise.Errorf("fake", edgewise.Guest, "enough")
		case req.Parameters["fault"] == i:
			resp.Fault = edgewise.Errorf("fake", edgewise.Guest, "not this one")
		default:
			e.talked.Add(1)
			resp.Parameters = map[string]any{"i": i}
			resp.Outputs = []edgewise.Tensor{{
				Name: "y", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(req.Inputs[0].Data))},
				Data: slices.Clone(req.Inputs[0].Data),
			}}
			resp.Free = func() { e.released.Add(1) }
		}
		if err := req.Each(resp); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	last := answer()
	last.Empty = true
	return last, nil
}

// fakeEngine serves the models "echo", which answers with its input x as y, and "cold", which is not ready.
type fakeEngine struct {
	notReady           atomic.Bool
	infers, released   atomic.Int64
	talked             atomic.Int64
	loaded, dependents atomic.Bool
	override           atomic.Pointer[edgewise.LoadOverride]

	mu     sync.Mutex // guards what follows
	hook   func(ctx context.Context, req *edgewise.Request) error
	queued func(ctx context.Context, req *edgewise.Request) error

	counted []string // what was counted: model, version and how it ended
}

// onQueue sets what happens before a request is in its queue; onInfer what happens behind it.
func (e *fakeEngine) onQueue(hook func(ctx context.Context, req *edgewise.Request) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queued = hook
}

// Answer answers as the box does, without counting by version.
func (e *fakeEngine) Answer(ctx context.Context, req *edgewise.Request, x edgewise.Exchange) (*edgewise.Response,
	error,
) {
	resp, err := x.Infer(ctx, e, req)
	e.count(req.Model, err)
	if err != nil {
		resp.Release()
		return nil, err
	}
	return resp, nil
}

// Refuse notes what is refused.
func (e *fakeEngine) Refuse(_ context.Context, id edgewise.ModelID, _ time.Duration, err error) {
	e.count(id, err)
	if id.Name == panicsWhenRefused {
		panic("a secret")
	}
}

// panicsWhenRefused is a model whose refused requests make the engine panic.
const panicsWhenRefused = "panics"

func (e *fakeEngine) count(id edgewise.ModelID, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	how := "success"
	if err != nil {
		how = edgewise.KindOf(err).String()
	}
	e.counted = append(e.counted, fmt.Sprintf("%s %d %s", id.Name, id.Version, how))
}

func (e *fakeEngine) onInfer(hook func(ctx context.Context, req *edgewise.Request) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hook = hook
}

// Infer echoes.
func (e *fakeEngine) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	e.mu.Lock()
	hook, queued := e.hook, e.queued
	e.mu.Unlock()
	if queued != nil {
		if err := queued(ctx, req); err != nil {
			return nil, err
		}
	}
	ordering.Queued(ctx)
	if _, _, err := e.Version(req.Model); err != nil {
		return nil, err
	}
	if hook != nil {
		if err := hook(ctx, req); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, edgewise.Errorf("fake", edgewise.KindOf(err), "given up: %w", err)
	}
	if req.Model.Name == "talker" {
		return e.talk(ctx, req)
	}
	if len(req.Inputs) != 1 {
		return nil, edgewise.Errorf("fake", edgewise.Invalid, "expected 1 inputs but got %d inputs for model 'echo'",
			len(req.Inputs))
	}
	in := req.Inputs[0]
	data := make([]byte, len(in.Data)) // as a runtime does, so that the input can be used again
	copy(data, in.Data)
	e.infers.Add(1)
	return &edgewise.Response{
		ID: req.ID, Model: edgewise.ModelID{Name: "echo", Version: 3}, Parameters: map[string]any{"n": int64(len(data))},
		Outputs: []edgewise.Tensor{{Name: "y", Type: in.Type, Shape: in.Shape, Data: data}},
		Free: func() {
			clear(data) // whoever reads on sees it
			e.released.Add(1)
		},
	}, nil
}

func (e *fakeEngine) Live() bool  { return true }
func (e *fakeEngine) Ready() bool { return !e.notReady.Load() }

func (e *fakeEngine) VersionReady(id edgewise.ModelID) error {
	_, _, err := e.Version(id)
	return err
}

// Version describes echo.
func (e *fakeEngine) Version(id edgewise.ModelID) (*edgewise.Version, []int64, error) {
	switch {
	case id.Name == "cold":
		return nil, nil, edgewise.Errorf("fake", edgewise.Unavailable, "Request for unknown model: 'cold' version 1 is not "+
			"at ready state")
	case id.Name == "talker":
		m := echoModel()
		m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
		return &edgewise.Version{ID: edgewise.ModelID{Name: "talker", Version: 1}, Model: m}, []int64{1}, nil
	case id.Name != "echo":
		return nil, nil, edgewise.Errorf("fake", edgewise.NotFound, "Request for unknown model: '%s' is not found", id.Name)
	case id.Version != 0 && id.Version != 3:
		return nil, nil, edgewise.Errorf("fake", edgewise.NotFound, "Request for unknown model: 'echo' version %d is "+
			"not found", id.Version)
	}
	return &edgewise.Version{ID: edgewise.ModelID{Name: "echo", Version: 3}, Model: echoModel()}, []int64{1, 3}, nil
}

// echoModel has a field of every kind that a declaration may have.
func echoModel() *edgewise.Model {
	return &edgewise.Model{
		Name: "echo", Platform: "onnxruntime_onnx", Backend: "onnxruntime", MaxBatchSize: 8,
		VersionPolicy: &edgewise.VersionPolicy{Latest: &edgewise.LatestVersions{NumVersions: 2}},
		Input: []edgewise.ModelInput{{
			Name: "x", DataType: edgewise.FP32, Format: edgewise.FormatNone,
			Dims: edgewise.Shape{-1}, Optional: true, Reshape: &edgewise.Reshape{Shape: edgewise.Shape{1, -1}},
		}},
		Output: []edgewise.ModelOutput{{
			Name: "y", DataType: edgewise.Bytes, Dims: edgewise.Shape{1 << 40},
			LabelFilename: "labels.txt",
		}},
		InstanceGroup: []edgewise.InstanceGroup{{
			Name: "echo_0", Kind: edgewise.KindCPU, Count: 2, GPUs: []int32{},
			RateLimiter: &edgewise.RateLimiter{Priority: 2},
		}},
		DynamicBatching: &edgewise.DynamicBatching{
			PreferredBatchSize: []int32{4, 8}, MaxQueueDelay: 1 << 40, PreserveOrdering: true,
		},
		MetricTags: map[string]string{"site": "roof"}, Parameters: map[string]edgewise.ModelParam{"k": {StringValue: "v"}},
		ModelWarmup: []edgewise.ModelWarmup{{
			Name: "w", BatchSize: 1,
			Inputs: map[string]edgewise.WarmupInput{"x": {DataType: edgewise.FP32, Dims: edgewise.Shape{1}, ZeroData: true}},
		}},
		ResponseCache: &edgewise.Switch{Enable: true},
	}
}

// Index lists one version in each state, and a model that was never loaded.
func (e *fakeEngine) Index() []edgewise.Status {
	return []edgewise.Status{
		{ID: edgewise.ModelID{Name: "echo", Version: 3}, State: edgewise.StateReady},
		{ID: edgewise.ModelID{Name: "cold", Version: 1}, Reason: "unloaded"},
		{ID: edgewise.ModelID{Name: "new"}},
	}
}

// Load knows echo only.
func (e *fakeEngine) Load(_ context.Context, name string, o edgewise.LoadOverride) error {
	e.override.Store(&o)
	if name != "echo" {
		return edgewise.Errorf("fake", edgewise.NotFound, "failed to load '%s', failed to poll from model repository", name)
	}
	e.loaded.Store(true)
	return nil
}

// Unload remembers what it was asked.
func (e *fakeEngine) Unload(_ context.Context, name string, dependents bool) error {
	if name != "echo" {
		return edgewise.Errorf("fake", edgewise.NotFound, "Request for unknown model: '%s' is not found", name)
	}
	e.loaded.Store(false)
	e.dependents.Store(dependents)
	return nil
}

// Statistics are those of echo.
func (e *fakeEngine) Statistics(id edgewise.ModelID) ([]kserve.VersionStatistics, error) {
	if id.Name != "" && id.Name != "echo" {
		return nil, edgewise.Errorf("fake", edgewise.Invalid, "requested model '%s' is not available", id.Name)
	}
	st := edgewise.Statistics{
		LastInference: time.UnixMilli(1234), InferenceCount: 7, ExecutionCount: 3,
		Success: edgewise.Duration{Count: 2, Total: 5}, CacheMiss: edgewise.Duration{Count: 1, Total: 9},
		Batches: []edgewise.BatchStatistics{{Size: 4, ComputeInfer: edgewise.Duration{Count: 1, Total: 6}}},
	}
	return []kserve.VersionStatistics{{ID: edgewise.ModelID{Name: "echo", Version: 3}, Statistics: st}}, nil
}

// fakeShared holds regions in memory of its own.
type fakeShared struct {
	mu      sync.Mutex // guards regions
	regions map[string][]byte
}

// Allowed always does.
func (*fakeShared) Allowed() error { return nil }

// Register makes a region of zeros.
func (f *fakeShared) Register(r edgewise.Region) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.regions == nil {
		f.regions = map[string][]byte{}
	}
	if f.regions[r.Name] != nil {
		return edgewise.Errorf("fake", edgewise.Exists, "shared memory region '%s' already in manager", r.Name)
	}
	f.regions[r.Name] = make([]byte, r.Size)
	return nil
}

// Unregister forgets.
func (f *fakeShared) Unregister(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.regions, name)
	return nil
}

// Status lists all.
func (f *fakeShared) Status(name string) ([]edgewise.Region, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "" && f.regions[name] == nil {
		return nil, edgewise.Errorf("fake", edgewise.NotFound, "Unable to find system shared memory region: '%s'", name)
	}
	var list []edgewise.Region
	for n, b := range f.regions {
		list = append(list, edgewise.Region{Name: n, Key: "/" + n, Size: int64(len(b))})
	}
	return list, nil
}

// Open returns a part of a region.
func (f *fakeShared) Open(name string, offset, size int64) (edgewise.Window, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.regions[name]
	if b == nil || offset+size > int64(len(b)) {
		return nil, edgewise.Errorf("fake", edgewise.NotFound, "Unable to find shared memory region: '%s'", name)
	}
	return fakeWindow(b[offset : offset+size]), nil
}

type fakeWindow []byte

func (w fakeWindow) Size() int64 { return int64(len(w)) }

func (w fakeWindow) Read(p []byte) error {
	copy(p, w)
	return nil
}

func (w fakeWindow) Write(p []byte) error {
	if len(p) > len(w) {
		return fmt.Errorf("too large")
	}
	copy(w, p)
	return nil
}

func (w fakeWindow) Close() {}
