package ensemble

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
)

// zoo answers for the models of an ensemble's steps. It checks that responses are released and that nobody reads a
// response's bytes after that: released memory is overwritten.
type zoo struct {
	t      testing.TB
	models map[string]*edgewise.Model
	behave map[string]behaviour
	speak  map[string]speaker // of decoupled models

	held    atomic.Int64    // responses that were not released
	stops   map[string]bool // models that answer as ensembles that have stopped
	now     sync.Map        // model name to *atomic.Int64, requests in progress
	mu      sync.Mutex      // guards asked
	asked   map[string][]*edgewise.Request
	perStep map[string]int64 // most requests at a time

	independent func(edgewise.ModelID) bool
}

// behaviour answers a request to a model of the zoo.
type behaviour func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error)

func newZoo(t testing.TB) *zoo {
	z := &zoo{
		t: t, models: map[string]*edgewise.Model{}, asked: map[string][]*edgewise.Request{}, perStep: map[string]int64{},
		behave: map[string]behaviour{}, speak: map[string]speaker{},
	}
	t.Cleanup(func() {
		if n := z.held.Load(); n != 0 {
			t.Errorf("%d responses were never released", n)
		}
	})
	return z
}

// speaker answers a request to a decoupled model: emit sends a response, what it returns is the last one; nil: an end.
type speaker func(ctx context.Context, req *edgewise.Request, emit emitter) ([]edgewise.Tensor, error)

// emitter sends a response with parameters.
type emitter = func([]edgewise.Tensor, map[string]any) error

// stream makes a decoupled model; see add.
func (z *zoo) stream(name string, in, out []string, speak speaker) {
	z.models[name] = decoupled(model(name, 0, in, out))
	z.speak[name] = speak
}

func decoupled(m *edgewise.Model) *edgewise.Model {
	m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	return m
}

// add makes a model: inputs and outputs are written as "x:FP32[1,-1]", with '?' behind the name of an optional input.
func (z *zoo) add(name string, maxBatch int32, in, out []string, behave behaviour) {
	z.models[name] = model(name, maxBatch, in, out)
	z.behave[name] = behave
}

func model(name string, maxBatch int32, in, out []string) *edgewise.Model {
	m := &edgewise.Model{Name: name, Platform: "onnxruntime_onnx", MaxBatchSize: maxBatch}
	for _, text := range in {
		s := spec(text)
		m.Input = append(m.Input, edgewise.ModelInput{Name: s.Name, DataType: s.Type, Dims: s.Shape, Optional: s.Optional})
	}
	for _, text := range out {
		s := spec(text)
		m.Output = append(m.Output, edgewise.ModelOutput{Name: s.Name, DataType: s.Type, Dims: s.Shape})
	}
	return m
}

func spec(text string) (s edgewise.Spec) {
	name, rest, _ := cut(text, ':')
	typeName, dims, _ := cut(rest, '[')
	if name[len(name)-1] == '?' {
		s.Optional, name = true, name[:len(name)-1]
	}
	s.Name = name
	s.Type, _ = edgewise.ParseDataType(typeName)
	for dims = dims[:len(dims)-1]; dims != ""; {
		var one string
		one, dims, _ = cut(dims, ',')
		var d int64
		if _, err := fmt.Sscan(one, &d); err != nil {
			panic(err)
		}
		s.Shape = append(s.Shape, d)
	}
	return s
}

func cut(s string, sep byte) (before, after string, found bool) {
	if i := slices.Index([]byte(s), sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// Infer answers for a model and keeps count.
func (z *zoo) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	counter, _ := z.now.LoadOrStore(req.Model.Name, &atomic.Int64{})
	n := counter.(*atomic.Int64).Add(1)
	defer counter.(*atomic.Int64).Add(-1)
	z.mu.Lock()
	z.asked[req.Model.Name] = append(z.asked[req.Model.Name], req)
	z.perStep[req.Model.Name] = max(z.perStep[req.Model.Name], n)
	z.mu.Unlock()
	if z.models[req.Model.Name] == nil || req.Model.Version != 1 {
		return nil, edgewise.Errorf("zoo", edgewise.NotFound, "Request for unknown model: '%s' is not found", req.Model.Name)
	}
	ordering.Queued(ctx)
	if speak := z.speak[req.Model.Name]; speak != nil {
		all, err := speak(ctx, req, func(all []edgewise.Tensor, p map[string]any) error {
			resp := z.response(req, all)
			resp.Parameters = p
			return req.Each(resp)
		})
		switch {
		case err != nil:
			return nil, err
		case all == nil:
			return &edgewise.Response{Model: req.Model, Empty: true}, nil
		}
		return z.response(req, all), nil
	}
	all, err := z.behave[req.Model.Name](ctx, req)
	if err != nil {
		return nil, err
	}
	return z.response(req, all), nil
}

// response makes a response of the outputs that are wanted.
func (z *zoo) response(req *edgewise.Request, all []edgewise.Tensor) *edgewise.Response {
	var out []edgewise.Tensor
	for _, name := range req.Outputs {
		for _, t := range all {
			if t.Name == name {
				t.Data = slices.Clone(t.Data)
				out = append(out, t)
			}
		}
	}
	z.held.Add(1)
	kept := slices.Clone(out)
	var parameters map[string]any
	if z.stops[req.Model.Name] {
		parameters = map[string]any{"stopped_at": "inner"}
	}
	return &edgewise.Response{
		Model: req.Model, Parameters: parameters, Outputs: out,
		Timing: edgewise.Timing{Batch: 1, Infer: 1}, Free: func() {
			z.held.Add(-1)
			for _, t := range kept {
				for i := range t.Data {
					t.Data[i] = 0xEE
				}
			}
		},
	}
}

// requests returns how often a model was asked.
func (z *zoo) requests(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.asked[name])
}

func (z *zoo) most(name string) int64 {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.perStep[name]
}

// parts are the models of an ensemble's steps.
func (z *zoo) parts(m *edgewise.Model) []*edgewise.Version {
	var parts []*edgewise.Version
	for _, s := range m.EnsembleScheduling.Step {
		parts = append(parts, &edgewise.Version{ID: edgewise.ModelID{Name: s.ModelName, Version: 1}, Model: z.models[s.ModelName]})
	}
	return parts
}

// ensemble makes an ensemble of steps on the zoo's models.
func (z *zoo) ensemble(m *edgewise.Model) *Ensemble {
	z.t.Helper()
	e, err := New(&edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 7}, Model: pinned(m)}, z.parts(m), Config{
		Independent: z.independent,
		Infer:       z, Check: func(*edgewise.Request) error { return nil }, MaxQueue: 64, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		z.t.Fatal(err)
	}
	z.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			z.t.Error(err)
		}
	})
	return e
}

// pinned pins every step to version 1.
func pinned(m *edgewise.Model) *edgewise.Model {
	for i := range m.EnsembleScheduling.Step {
		m.EnsembleScheduling.Step[i].Pinned = &edgewise.EnsemblePin{Version: 1}
	}
	return m
}

// pipeline makes the configuration of an ensemble "E".
func pipeline(maxBatch int32, in, out []string, steps ...edgewise.EnsembleStep) *edgewise.Model {
	m := model("E", maxBatch, in, out)
	m.Platform = "ensemble"
	m.EnsembleScheduling = &edgewise.EnsembleScheduling{Step: steps}
	return m
}

// names is a map of names.
type names = map[string]string

func stepOf(model string, in, out names) edgewise.EnsembleStep {
	return edgewise.EnsembleStep{ModelName: model, ModelVersion: -1, InputMap: in, OutputMap: out}
}

// floats makes an FP32 tensor of one dimension, or of the given ones.
func floats(name string, values []float32, shape ...int64) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape}
	if shape == nil {
		t.Shape = edgewise.Shape{int64(len(values))}
	}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

func values(t edgewise.Tensor) []float32 {
	v := make([]float32, len(t.Data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return v
}

// plus is a model that adds a number to every element of all its inputs together: y = sum(inputs) + n.
func plus(n float32) behaviour {
	return func(_ context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		sum := values(req.Inputs[0])
		for _, in := range req.Inputs[1:] {
			for i, v := range values(in) {
				sum[i] += v
			}
		}
		for i := range sum {
			sum[i] += n
		}
		return []edgewise.Tensor{floats("y", sum, req.Inputs[0].Shape...)}, nil
	}
}

// answerOf returns the numbers of an output.
func answerOf(t testing.TB, r *edgewise.Response, name string) []float32 {
	t.Helper()
	for _, out := range r.Outputs {
		if out.Name == name {
			return values(out)
		}
	}
	t.Fatalf("no output %q in %v", name, r.Outputs)
	return nil
}
