package monitor

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

// answers answers every request, and keeps the last.
type answers struct {
	timing edgewise.Timing
	asked  *edgewise.Request
}

func (a *answers) Infer(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	a.asked = req
	return &edgewise.Response{Model: req.Model, Timing: a.timing, Parameters: map[string]any{"own": "x"}}, nil
}

func TestARequestCanAskWhereItsTimeGoes(t *testing.T) {
	a := &answers{timing: edgewise.Timing{
		Queue: 1, Input: 2, Infer: 30, Output: 4, Batch: 5, Guest: edgewise.Usage{Fuel: 6, Memory: 7, Time: 20, Host: 10},
	}}
	for _, test := range []struct {
		name       string
		parameters map[string]any
		told       bool
	}{
		{"asked", map[string]any{"timing": true, "k": int64(1)}, true},
		{"not asked", map[string]any{"k": int64(1)}, false},
		{"no", map[string]any{"timing": false, "k": int64(1)}, false},
		{"a step's own", map[string]any{"timing": "true", "k": int64(1)}, false},
	} {
		given := maps.Clone(test.parameters)
		r, err := Timed{Inner: a}.Infer(t.Context(), &edgewise.Request{Parameters: given})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(given, test.parameters) {
			t.Errorf("%s: the request was changed: %v", test.name, given)
		}
		_, there := given["timing"]
		if _, passed := a.asked.Parameters["timing"]; passed != (there && !test.told) || a.asked.Parameters["k"] != int64(1) {
			t.Errorf("%s: the model was asked with %v", test.name, a.asked.Parameters)
		}
		want := map[string]any{"own": "x"}
		if test.told {
			if total, _ := r.Parameters["timing_total_ns"].(int64); total <= 0 {
				t.Errorf("%s: total is %v", test.name, r.Parameters["timing_total_ns"])
			}
			delete(r.Parameters, "timing_total_ns")
			want = map[string]any{
				"own": "x", "timing_queue_ns": int64(1), "timing_input_ns": int64(2), "timing_compute_ns": int64(
					30), "timing_output_ns": int64(4), "timing_batch": int64(5),
				"timing_guest_ns": int64(20), "timing_host_ns": int64(10), "timing_fuel": int64(6), "timing_memory_bytes": int64(7),
			}
		}
		if !maps.Equal(r.Parameters, want) {
			t.Errorf("%s: got %v, want %v", test.name, r.Parameters, want)
		}
	}
}

// heard is a recorder that counts.
type heard struct{ asked, answered []int }

func (h *heard) Ask(ctx context.Context, step int, _ *edgewise.Request) (context.Context, func(*edgewise.Response, error)) {
	h.asked = append(h.asked, step)
	return ctx, func(*edgewise.Response, error) { h.answered = append(h.answered, step) }
}

// TestStepsOfAnEnsembleAreTimed asks an ensemble of two models, with and without somebody else who listens.
func TestStepsOfAnEnsembleAreTimed(t *testing.T) {
	h := models.New(t, 0)
	h.PushBoth()
	in := edgewise.Tensor{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "?")}
	other := &heard{}
	for _, ctx := range []context.Context{t.Context(), edgewise.WithRecorder(t.Context(), other)} {
		r, err := Timed{Inner: h.Manager}.Infer(ctx, &edgewise.Request{
			Model:  edgewise.ModelID{Name: "E"},
			Inputs: []edgewise.Tensor{in}, Parameters: map[string]any{"timing": true},
		})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Parameters
		if p["timing_step_0_model"] != "a" || p["timing_step_1_model"] != "b" || p["timing_step_0_requests"] != int64(1) ||
			p["timing_step_1_version"] != int64(1) {
			t.Errorf("%v", p)
		}
		steps := time.Duration(0)
		for _, name := range []string{"timing_step_0_compute_ns", "timing_step_1_compute_ns"} {
			ns, _ := p[name].(int64)
			steps += time.Duration(ns)
		}
		if whole, _ := p["timing_compute_ns"].(int64); time.Duration(whole) != steps {
			t.Errorf("the ensemble computed for %v, its steps for %v", time.Duration(whole), steps)
		}
		if _, there := p["timing_guest_ns"]; there {
			t.Error("models have no guests")
		}
		r.Release()
	}
	if !slices.Equal(other.asked, []int{0, 1}) || !slices.Equal(other.answered, []int{0, 1}) {
		t.Errorf("the other one heard %+v", other)
	}
}

// TestStepsWithinStepsAreNotToldApart holds that an ensemble within a step is part of it, and that there is a bound.
func TestStepsWithinStepsAreNotToldApart(t *testing.T) {
	s := &stepTimings{}
	ctx := edgewise.WithRecorder(t.Context(), s)
	for step := range timedSteps + 1 {
		inner, answered := edgewise.RecorderOf(ctx).Ask(ctx, step, &edgewise.Request{})
		if edgewise.RecorderOf(inner) != nil {
			t.Error("what a step asks is recorded as a step")
		}
		answered(&edgewise.Response{Timing: edgewise.Timing{Infer: 1}}, nil)
		answered(nil, context.Canceled)
	}
	told := map[string]any{}
	s.addTo(told)
	if told["timing_step_31_requests"] != int64(1) || told["timing_step_32_requests"] != nil {
		t.Errorf("%v", told)
	}
}
