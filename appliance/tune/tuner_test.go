package tune

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
)

// stored is a store of models of which nothing but the record is asked.
type stored struct {
	Models
	records map[string]*edgewise.Record
}

func (s stored) Record(name string) (*edgewise.Record, error) {
	if r := s.records[name]; r != nil {
		return r, nil
	}
	return nil, edgewise.Errorf("fake", edgewise.NotFound, "there is no model %q", name)
}

func (s stored) Changeable(string, string) error { return nil }

func tuner(t *testing.T, change ...func(*edgewise.Model)) *Tuner {
	t.Helper()
	s := stored{records: map[string]*edgewise.Record{}}
	for i := range maxQueued + 2 {
		name := fmt.Sprintf("m%d", i)
		m := &edgewise.Model{Name: name, Platform: "onnxruntime_onnx"}
		for _, c := range change {
			c(m)
		}
		s.records[name] = &edgewise.Record{
			Name: name, Wanted: true, Labels: []edgewise.Label{{Name: edgewise.LiveLabel, Version: 1}},
			Versions: []*edgewise.Version{{ID: edgewise.ModelID{Name: name, Version: 1}, Model: m}},
		}
	}
	return New(Config{
		Models: s, Changed: func(edgewise.ModelID) {}, Idle: idle.New(func() (int64, int64) { return 0, 0 }),
		Formats: edgewise.Formats{{Platform: "onnxruntime_onnx"}, {Platform: "other", Untried: true}},
	})
}

func TestOneTuningOfAModelIsQueuedAndABoundedNumberOfModels(t *testing.T) {
	u := tuner(t)
	for i := range maxQueued {
		if got, err := u.Start(t.Context(), fmt.Sprintf("m%d", i), admin.TuneRequest{}); err != nil || got.State != admin.TuneQueued {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := u.Start(t.Context(), "m0", admin.TuneRequest{}); edgewise.KindOf(err) != edgewise.Conflict {
		t.Error(err)
	}
	_, err := u.Start(t.Context(), "m8", admin.TuneRequest{})
	if edgewise.KindOf(err) != edgewise.Busy || !strings.Contains(err.Error(), "8 tunings wait") {
		t.Error(err)
	}
	if got, err := u.Stop("m0"); err != nil || got.State != admin.TuneStopped {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := u.Stop("m0"); edgewise.KindOf(err) != edgewise.Conflict {
		t.Error(err)
	}
	if j := u.pop(); j == nil || j.shown.Model != "m1" {
		t.Errorf("%+v is next, and it was stopped", j)
	}
	if _, err := u.Get("m9"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Error(err)
	}
}

func TestWhatCannotBeTunedIsRefusedWithTheReason(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*edgewise.Model)
		want   string
	}{
		{"an ensemble of itself", func(m *edgewise.Model) {
			m.EnsembleScheduling = &edgewise.EnsembleScheduling{Step: []edgewise.EnsembleStep{
				{ModelName: "m1", Pinned: &edgewise.EnsemblePin{Version: 1}},
			}}
		}, `ensemble "m0" cannot be tuned: of its model "m1": it is an ensemble itself`},
		{"a decoupled model", func(m *edgewise.Model) {
			m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
		}, "a request to it has any number of responses"},
		{"one with effects", func(m *edgewise.Model) { m.Platform = "other" }, "requests to it may have effects"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := tuner(t, test.change).Start(t.Context(), "m0", admin.TuneRequest{})
			if edgewise.KindOf(err) != edgewise.Unsupported || !strings.Contains(err.Error(), test.want) {
				t.Error(err)
			}
		})
	}
}

func TestObjectivesOutOfBoundsAreRefused(t *testing.T) {
	weights := func(w admin.TuneWeights) admin.TuneObjective { return admin.TuneObjective{Weights: &w} }
	for field, o := range map[string]admin.TuneObjective{
		"objective.p99_ms": {P99: -1}, "objective.throughput": {Throughput: 1e9}, "objective.memory_bytes": {MemoryBytes: -1},
		"objective.weights": weights(admin.TuneWeights{}),
	} {
		_, err := tuner(t).Start(context.Background(), "m0", admin.TuneRequest{Objective: &o})
		var refused *edgewise.Error
		if !errors.As(err, &refused) || refused.Kind != edgewise.Invalid || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := tuner(t).Start(t.Context(), "m0", admin.TuneRequest{Seconds: 2}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Error(err)
	}
}

func TestTheObjectiveInAConfigurationIsRead(t *testing.T) {
	with := func(text string) func(*edgewise.Model) {
		return func(m *edgewise.Model) { m.Parameters = map[string]edgewise.ModelParam{Parameter: {StringValue: text}} }
	}
	got, err := tuner(t, with(`{"p99_ms": 40, "idle": true}`)).Start(t.Context(), "m0", admin.TuneRequest{})
	if err != nil || got.Objective.P99 != 40 {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"idle": "", `{"p99_ms": 40}`: "", "": "want \"idle\" or an objective", `{"p50_ms": 1}`: "unknown field",
		`{} {}`: "something follows", `{"throughput": -1}`: "throughput is -1", strings.Repeat(" ", 2000): "at most 1000",
	} {
		m := &edgewise.Model{}
		with(text)(m)
		if err := CheckModel(m); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text[:min(len(text), 20)], err, want)
		}
	}
}
