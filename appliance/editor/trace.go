package editor

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/picture"
	"github.com/edgewise-ai/edgewise/scalar"
)

// Bounds of the tensors in a trace. Larger ones are described without their data.
const (
	maxTracedTensor = 4 << 20  // bytes
	maxTraced       = 64 << 20 // bytes together
)

// Trace runs a draft once, for at most a minute, and keeps every tensor; of a decoupled step and those behind it, the
// first of each name. A failure of a step is in the trace. Errors: NotFound, Invalid, Unavailable.
func (e *Editor) Trace(ctx context.Context, id string, req *edgewise.Request) (admin.Trace, error) {
	m, err := e.DraftModel(id)
	if err != nil {
		return admin.Trace{}, err
	}
	pinned, parts, err := ensemble.Pin(m, e.config.Models.Lookup)
	if err != nil {
		return admin.Trace{}, err
	}
	servable, err := ensemble.New(&edgewise.Version{ID: edgewise.ModelID{Name: m.Name}, Model: pinned}, parts,
		ensemble.Config{
			Infer: e.config.Infer, Check: sched.NewChecker(pinned).Check, MaxQueue: e.config.MaxQueue,
			Logger: e.config.Logger, Independent: e.config.Independent,
		})
	if err != nil {
		return admin.Trace{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, traceTime)
	defer cancel()
	t := newTracing(pinned, req)
	if pinned.Decoupled() {
		req.Each = func(resp *edgewise.Response) error {
			t.keep("output", nil, resp.Outputs, nil)
			resp.Release()
			return nil
		}
	}
	resp, failed := servable.Infer(edgewise.WithRecorder(ctx, t), req)
	defer resp.Release()
	if failed == nil {
		t.keep("output", nil, resp.Outputs, nil)
	} else if edgewise.KindOf(failed) == edgewise.Invalid && len(t.steps) == 0 {
		return admin.Trace{}, failed // the request contradicts the draft: nothing has run
	}
	return t.result(failed), servable.Close()
}

// traceTime bounds a traced run.
const traceTime = time.Minute

// tracing is the Recorder of one run.
type tracing struct {
	model *edgewise.Model
	began time.Time

	mu      sync.Mutex // guards the fields below
	steps   map[int]*admin.TraceStep
	tensors []admin.TraceTensor
	bytes   int64
}

func newTracing(m *edgewise.Model, req *edgewise.Request) *tracing {
	t := &tracing{model: m, began: time.Now(), steps: map[int]*admin.TraceStep{}, tensors: []admin.TraceTensor{}}
	t.keep("input", nil, req.Inputs, nil)
	return t
}

// Ask notes a request to the model of a step, and its response.
func (t *tracing) Ask(ctx context.Context, step int, req *edgewise.Request) (context.Context,
	func(*edgewise.Response, error),
) {
	began := time.Since(t.began)
	s := t.model.EnsembleScheduling.Step[step]
	t.mu.Lock()
	shown := t.steps[step]
	if shown == nil {
		shown = &admin.TraceStep{Step: step, Model: req.Model.Name, Version: req.Model.Version, Start: micro(began)}
		t.steps[step] = shown
	}
	shown.Calls++
	t.mu.Unlock()
	if s.FanOut == nil {
		t.keep("between", nil, req.Inputs, s.InputMap)
	}
	if each := req.Each; each != nil {
		req.Each = func(resp *edgewise.Response) error {
			t.keep("between", &step, resp.Outputs, s.OutputMap)
			return each(resp)
		}
	}
	return edgewise.WithRecorder(ctx, nil), func(resp *edgewise.Response, err error) {
		if resp != nil && s.FanOut == nil {
			t.keep("between", &step, resp.Outputs, s.OutputMap)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		shown.Duration = micro(time.Since(t.began)) - shown.Start
		if err != nil {
			shown.State, shown.Error = admin.StepFailed, problem(err)
			return
		}
		if shown.State == "" {
			shown.State = admin.StepDone
		}
		add(shown, resp.Timing)
	}
}

func add(s *admin.TraceStep, t edgewise.Timing) {
	s.Queue += micro(t.Queue)
	s.Input += micro(t.Input)
	s.Infer += micro(t.Infer)
	s.Output += micro(t.Output)
	s.Batch, s.Fuel, s.Memory = max(s.Batch, t.Batch), s.Fuel+t.Guest.Fuel, max(s.Memory, t.Guest.Memory)
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// problem returns what clients may read of an error.
func problem(err error) *admin.ErrorBody {
	body := kserve.NewErrorBody(err)
	body.Error = apistatus.Message(err)
	return &body
}

// keep copies tensors. names maps their names to the ensemble's; nil: they have the ensemble's names. A known tensor is
// not copied again, but gets the role of an output of the ensemble.
func (t *tracing) keep(role string, step *int, tensors []edgewise.Tensor, names map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range tensors {
		tensor := &tensors[i]
		picture.Settle(tensor)
		name := tensor.Name
		if names != nil {
			name = names[name]
		}
		if name == "" {
			continue
		}
		at := slices.IndexFunc(t.tensors, func(known admin.TraceTensor) bool { return known.Name == name })
		if at >= 0 {
			if role == "output" {
				t.tensors[at].Role = role
			}
			continue
		}
		shown := admin.TraceTensor{
			Name: name, Role: role, Step: step, Datatype: tensor.Type.String(),
			Shape: append(edgewise.Shape{}, tensor.Shape...), Bytes: int64(len(tensor.Data)), Summary: summarise(tensor),
		}
		if shown.Bytes <= maxTracedTensor && t.bytes+shown.Bytes <= maxTraced {
			shown.Data = slices.Clone(tensor.Data)
			t.bytes += shown.Bytes
		}
		t.tensors = append(t.tensors, shown)
	}
}

// result returns the trace of a run that ended with failed.
func (t *tracing) result(failed error) admin.Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := admin.Trace{Duration: micro(time.Since(t.began)), Steps: []admin.TraceStep{}, Tensors: t.tensors}
	if failed != nil {
		out.Error = problem(failed)
	}
	for i, s := range t.model.EnsembleScheduling.Step {
		shown := t.steps[i]
		if shown == nil {
			shown = &admin.TraceStep{Step: i, Model: s.ModelName, State: "not_run"}
			if s.Pinned != nil {
				shown.Version = s.Pinned.Version
			}
		}
		if shown.State == "" {
			shown.State = admin.StepFailed
		}
		out.Steps = append(out.Steps, *shown)
	}
	return out
}

// summarise describes a tensor of numbers. It returns nil for text and for a tensor without elements.
func summarise(t *edgewise.Tensor) *admin.TensorSummary {
	size := int(t.Type.Size())
	if size == 0 || len(t.Data) < size {
		return nil
	}
	s := &admin.TensorSummary{Min: math.Inf(1), Max: math.Inf(-1)}
	finite := int64(0)
	for at := 0; at+size <= len(t.Data); at += size {
		x := scalar.Float(t.Type, t.Data[at:])
		if math.IsNaN(x) || math.IsInf(x, 0) {
			s.NotFinite++
			continue
		}
		if x == 0 {
			s.Zeros++
		}
		finite++
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
		s.Mean += x/float64(finite) - s.Mean/float64(finite) // the difference of two finite numbers may be infinite
	}
	if finite == 0 {
		s.Min, s.Max = 0, 0
	}
	return s
}
